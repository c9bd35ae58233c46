//! Tests of `replicas`: a reachable address, names of all gateways, and the required secret.

use super::TestConfig;

const SECRET: &str = "0123456789abcdef0123456789abcdef";

fn given(replicas: &str) -> TestConfig {
    let text = format!("listen: 127.0.0.1:3001\nsecret: '${{SECRET}}'\nreplicas: {replicas}");
    TestConfig::yaml(&text).env("SECRET", SECRET)
}

#[test]
fn the_port_is_the_one_of_the_listener_unless_there_is_another() {
    assert!(TestConfig::yaml("title: a").loaded().config.proxy.replicas.is_none());
    let text = "{ address: 2001:db8::7, peers: [gate-peers.tools.svc, '10.0.0.8:3005'] }";
    let replicas = given(text).loaded().config.proxy.replicas.unwrap();
    assert_eq!(replicas.address.to_string(), "[2001:db8::7]:3001");
    let peers = [("gate-peers.tools.svc".to_owned(), 3001), ("10.0.0.8".to_owned(), 3005)];
    assert_eq!((replicas.peers.as_slice(), replicas.tls_name), (peers.as_slice(), None));
    let other =
        given("{ address: '10.0.0.7:3009', peers: gate }").loaded().config.proxy.replicas.unwrap();
    assert_eq!(other.address.to_string(), "10.0.0.7:3009");
}

#[test]
fn what_cannot_be_reached_is_an_error() {
    for (text, key, words) in [
        (
            "{ address: gate, peers: a }",
            "replicas.address",
            "is not a valid address of this gateway",
        ),
        (
            "{ address: 0.0.0.0, peers: a }",
            "replicas.address",
            "is not a valid address of this gateway",
        ),
        ("{ address: 10.0.0.7 }", "replicas.peers", "is required by `replicas.address`"),
        ("{ address: 10.0.0.7, peers: ['a b'] }", "replicas.peers", "is not a name or address"),
        ("{ address: 10.0.0.7, peers: ['a:0'] }", "replicas.peers", "is not a name or address"),
        ("{ address: 10.0.0.7, peers: 'http://a' }", "replicas.peers", "is not a name or address"),
        ("{ peers: a }", "replicas.peers", "without `replicas.address`"),
        ("{ address: 10.0.0.7, peers: a, tls_name: a }", "replicas.tls_name", "without `http.tls`"),
    ] {
        let messages = given(text).messages();
        let [message] = messages.as_slice() else { panic!("{text}: {messages:?}") };
        assert!(message.contains(key) && message.contains(words), "{message}");
    }
    let alone = TestConfig::yaml("replicas: { address: 10.0.0.7, peers: a }").messages();
    assert!(alone.iter().any(|message| message.contains("requires `secret`")), "{alone:?}");
}
