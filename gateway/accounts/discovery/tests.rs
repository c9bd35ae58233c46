//! Tests of the rules for documents; fetching is tested with servers.

use lockgate_egress::metadata_urls;
use serde_json::{Value, json};
use url::Url;

use super::{AuthorizationServer, canonical, is_same_or_parent};
use crate::error::AccountError;
use crate::fetch::{Fetched, LIFETIME};

fn url(text: &str) -> Url {
    Url::parse(text).unwrap()
}

#[test]
fn a_resource_is_the_server_or_its_parent() {
    let server = url("https://A.example/team/mcp");
    for good in [
        "https://a.example/team/mcp",
        "https://a.example/team/mcp/",
        "HTTPS://A.EXAMPLE:443/team",
        "https://a.example",
    ] {
        assert!(is_same_or_parent(good, &server), "{good}");
    }
    for bad in [
        "",
        "https://a.example/te",
        "https://a.example/team/mcp/x",
        "http://a.example/team/mcp",
        "https://a.example:444/team/mcp",
        "https://a.example.evil.example/team/mcp",
        "https://a.example/team/mcp#x",
        "https://a.example/team/mcp?x",
    ] {
        assert!(!is_same_or_parent(bad, &server), "{bad}");
    }
    assert_eq!(canonical(&url("https://A.example/")), "https://a.example");
    assert_eq!(canonical(&url("https://a.example/mcp#x")), "https://a.example/mcp");
}

#[test]
fn well_known_urls_are_in_the_order_of_the_specification() {
    let shown =
        |issuer: &str| metadata_urls(&url(issuer)).iter().map(Url::to_string).collect::<Vec<_>>();
    assert_eq!(
        shown("https://a.example/t"),
        [
            "https://a.example/.well-known/oauth-authorization-server/t",
            "https://a.example/.well-known/openid-configuration/t",
            "https://a.example/t/.well-known/openid-configuration",
        ]
    );
    assert_eq!(
        shown("https://a.example/"),
        [
            "https://a.example/.well-known/oauth-authorization-server",
            "https://a.example/.well-known/openid-configuration",
        ]
    );
}

fn metadata(issuer: &str) -> Value {
    json!({
        "issuer": issuer, "token_endpoint": "https://a.example/token",
        "authorization_endpoint": "https://a.example/authorize",
        "code_challenge_methods_supported": ["plain", "S256"],
    })
}

fn read_server(document: &Value, issuer: &str) -> Result<AuthorizationServer, AccountError> {
    super::read_server(&Fetched { document: document.clone(), lifetime: LIFETIME }, issuer)
}

#[test]
fn metadata_of_another_issuer_is_discarded() {
    let issuer = "https://a.example";
    assert!(read_server(&metadata(issuer), issuer).unwrap().has_s256);
    for other in ["https://a.example/", "https://A.example", "https://b.example", ""] {
        let read = read_server(&metadata(other), issuer);
        assert!(matches!(read, Err(AccountError::Invalid(_))), "{other}");
    }
}

#[test]
fn endpoints_are_https_or_on_this_machine() {
    let issuer = "https://a.example";
    for (endpoint, is_good) in [
        ("https://b.example/token", true),
        ("http://127.0.0.1:9/token", true),
        ("http://[::1]:9/token", true),
        ("http://localhost/token", true),
        ("http://a.example/token", false),
        ("http://localhost.evil.example/token", false),
        ("file:///etc/passwd", false),
        ("nowhere", false),
    ] {
        let mut document = metadata(issuer);
        document["token_endpoint"] = endpoint.into();
        assert_eq!(read_server(&document, issuer).is_ok(), is_good, "{endpoint}");
    }
    let mut document = metadata(issuer);
    document["code_challenge_methods_supported"] = json!(["plain"]);
    assert!(!read_server(&document, issuer).unwrap().has_s256);
    document["token_endpoint"] = json!(null);
    assert!(read_server(&document, issuer).is_err());
}
