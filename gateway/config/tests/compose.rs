//! Tests of `groups`, `endpoints`, `methods` and `discovery`: the place of each mistake.

use super::TestConfig;

const SERVERS: &str = "servers: { eu: { command: sh }, us: { command: sh } }\n";

#[test]
fn groups_endpoints_and_discovery_are_read() {
    let text = format!(
        "{SERVERS}groups: {{ all: {{ servers: [eu, us], argument: cluster }} }}\n\
        endpoints: {{ ops: {{ tools: ['eu/*'], rename: {{ eu/t: ask }} }} }}\n\
        methods: [com.example/do]\n\
        http: {{ public_url: 'https://mcp.example.com/gate/' }}\n\
        discovery: {{ cards: true, registry: public }}\n"
    );
    let proxy = TestConfig::yaml(&text).loaded().config.proxy;
    assert_eq!(proxy.groups["all"].servers.len(), 2);
    assert!(proxy.endpoints["ops"].tools.fit(&["eu/t"]));
    assert!(!proxy.endpoints["ops"].tools.fit(&["us/t"]));
    assert!(proxy.methods.contains("com.example/do"));
    let discovery = proxy.discovery.unwrap();
    assert_eq!((&*discovery.host, &*discovery.prefix), ("mcp.example.com", "/gate"));
}

#[test]
fn mistakes_are_told_with_their_places() {
    for (text, key, words) in [
        ("groups: { a: { servers: [eu], argument: x } }", "groups.a.servers", "2 to 100"),
        (
            "groups: { a: { servers: [eu, no], argument: x } }",
            "groups.a.servers",
            "not in `servers`",
        ),
        ("groups: { a: { servers: [eu, a, us], argument: x } }", "groups.a.servers", "group"),
        ("groups: { eu: { servers: [eu, us], argument: x } }", "groups.eu", "name of a server"),
        ("groups: { a: { servers: [eu, us] } }", "groups.a.argument", "1 to 64 letters"),
        ("groups: { A_B: { servers: [eu, us], argument: x } }", "groups.A_B", "a-z, 0-9"),
        ("endpoints: { a: { tools: ['['] } }", "endpoints.a.tools", "not a valid pattern"),
        ("endpoints: { a: { rename: { eu/t: call_tool } } }", "endpoints.a.rename", "gateway"),
        ("endpoints: { a: { rename: { eu/t: 'a b' } } }", "endpoints.a.rename", "1 to 64"),
        ("endpoints: { a: { rename: { eu/t: x, us/t: X } } }", "endpoints.a.rename", "another"),
        ("endpoints: { a: { rename: { t: x } } }", "endpoints.a.rename", "server/name"),
        ("endpoints: { a: { tolls: [] } }", "endpoints.a.tolls", "tools"),
        ("methods: [tools/call]", "methods", "not the name of an unknown method"),
        ("methods: [do]", "methods", "com.example/search"),
        ("methods: ['a/b\"c']", "methods", "com.example/search"),
        ("discovery: { registry: all }", "discovery.registry", "off"),
        (
            "listen: 0.0.0.0:8080\nauth: { keys_file: k.yaml }\ndiscovery: { cards: true }",
            "http.public_url",
            "required for `discovery`",
        ),
    ] {
        let messages = TestConfig::yaml(&format!("{SERVERS}{text}\n")).messages();
        let found = messages.iter().any(|told| told.contains(key) && told.contains(words));
        assert!(found, "{text}: {messages:?}");
    }
    let long = "x".repeat(4097);
    let text = format!("{SERVERS}endpoints: {{ a: {{ describe: {{ eu/t: {long} }} }} }}\n");
    let messages = TestConfig::yaml(&text).messages();
    assert!(messages[0].contains("4096"), "{messages:?}");
}
