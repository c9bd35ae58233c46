//! Tests of the lookup of a configuration's gateway by commands.

use super::TestConfig;
use crate::find_addresses;

#[test]
fn addresses_are_read_whatever_else_is_wrong() {
    let of_production =
        "profile: production\nlisten: '[::]:4000'\nadmin: { listen: 10.0.0.1:4001 }\n";
    let cases = [
        ("{}", "http://127.0.0.1:3001", "http://127.0.0.1:3001"),
        (of_production, "http://127.0.0.1:4000", "http://10.0.0.1:4001"),
        (
            "listen: 0.0.0.0:4000\nadmin: { listen: 127.0.0.1:4001 }\nauth: { key: '${NOT_SET}' }\n",
            "http://127.0.0.1:4000",
            "http://127.0.0.1:4000",
        ),
        (
            "listen: localhost:4000\nadmin: { listen: 127.0.0.1:4001, api: off }\nhttp: { tls: { cert: '${NOT_SET}', key: k } }\n",
            "https://localhost:4000",
            "https://127.0.0.1:4001",
        ),
    ];
    for (text, clients, api) in cases {
        let found = find_addresses(&TestConfig::yaml(text).sources).unwrap();
        assert_eq!((&*found.clients, &*found.api), (clients, api), "{text}");
    }
    let env = TestConfig::yaml("listen: 127.0.0.1:4000\n").env("MCP_PORT", "4002");
    assert_eq!(find_addresses(&env.sources).unwrap().clients, "http://127.0.0.1:4002");
    for text in ["listen: ${NOT_SET}\n", "listen: [", "admin: { listen: '${NOT_SET}' }\n"] {
        assert!(find_addresses(&TestConfig::yaml(text).sources).is_err(), "{text}");
    }
}
