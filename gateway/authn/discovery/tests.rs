//! Tests of `discovery`.

use serde_json::json;

use super::*;

#[test]
fn metadata_is_looked_for_in_the_order_of_the_specification() {
    let paths = |issuer: &str| {
        let issuer = Url::parse(issuer).unwrap();
        metadata_urls(&issuer).iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(
        paths("https://as.test/t/"),
        [
            "https://as.test/.well-known/oauth-authorization-server/t",
            "https://as.test/.well-known/openid-configuration/t",
            "https://as.test/t/.well-known/openid-configuration",
        ]
    );
    assert_eq!(
        paths("https://as.test"),
        [
            "https://as.test/.well-known/oauth-authorization-server",
            "https://as.test/.well-known/openid-configuration",
        ]
    );
}

#[test]
fn metadata_must_be_the_issuers_own_and_as_secure() {
    let keys = |issuer: &str, named: &str, uri: &str| {
        let document = json!({"issuer": named, "jwks_uri": uri});
        if text(&document, "issuer") == Some(issuer) {
            read_address(&document, "jwks_uri", issuer)
        } else {
            Err("another issuer".into())
        }
    };
    let at = "https://as.test";
    assert!(keys(at, at, "https://keys.test/jwks").is_ok());
    assert!(keys("http://127.0.0.1:1", "http://127.0.0.1:1", "http://127.0.0.1:2/jwks").is_ok());
    for (named, uri) in [
        ("https://as.test/", "https://k.test"),
        ("https://evil.test", "https://k.test"),
        (at, "http://k.test"),
        (at, "file:///etc/passwd"),
        (at, "/jwks"),
        (at, ""),
    ] {
        assert!(keys(at, named, uri).is_err(), "{named} {uri}");
    }
}

#[test]
fn only_the_issuers_own_host_may_be_inside() {
    for (address, expected) in [
        ("https://as.test/token", Policy::Operator),
        ("https://as.test:8443/token", Policy::Public),
        ("https://token.test/", Policy::Public),
    ] {
        assert_eq!(policy_for(&Url::parse(address).unwrap(), "https://as.test/t"), expected);
    }
}
