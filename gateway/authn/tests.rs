//! Tests of `authn`.

use super::*;

fn ask(key: Option<&str>, peer: Peer, bearer: Option<&str>) -> Result<String, Unknown> {
    let authenticator = Authenticator::new(&Config { key: key.map(Into::into) });
    let credentials = Credentials { peer, bearer: bearer.map(Into::into) };
    authenticator.authenticate(&credentials).map(|p| p.issuer.to_string())
}

fn at(address: &str) -> Peer {
    Peer::Address(address.parse().unwrap())
}

#[test]
fn without_a_key_only_this_machine_may_call() {
    for loopback in ["127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1"] {
        assert_eq!(ask(None, at(loopback), None).unwrap(), "local", "{loopback}");
    }
    for other in ["10.0.0.1", "192.168.1.2", "::", "::ffff:10.0.0.1", "fe80::1"] {
        assert_eq!(ask(None, at(other), None), Err(Unknown::Missing), "{other}");
        assert_eq!(ask(None, at(other), Some("anything")), Err(Unknown::Missing), "{other}");
    }
    assert_eq!(ask(None, Peer::Stdio, None).unwrap(), "local");
}

#[test]
fn with_a_key_everybody_over_tcp_needs_it() {
    let key = Some("a-long-enough-key-0123");
    assert_eq!(ask(key, at("127.0.0.1"), None), Err(Unknown::Missing));
    assert_eq!(ask(key, at("127.0.0.1"), Some("wrong")), Err(Unknown::Invalid));
    assert_eq!(ask(key, at("10.0.0.1"), key).unwrap(), "key");
    assert_eq!(ask(key, at("127.0.0.1"), Some("")), Err(Unknown::Invalid));
    assert_eq!(ask(key, Peer::Stdio, None).unwrap(), "local");
}

#[test]
fn debug_output_shows_no_secret() {
    let credentials = Credentials { peer: Peer::Stdio, bearer: Some("s3cret-value".into()) };
    let config = Config { key: Some("s3cret-value".into()) };
    assert!(!format!("{credentials:?}{config:?}").contains("s3cret"));
}
