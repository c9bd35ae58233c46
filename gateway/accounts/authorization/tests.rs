//! Tests of authorization requests, scopes, and responses.

use super::*;
use crate::fetch::LIFETIME;

fn found(resource: Option<&[&str]>, server: &[&str]) -> Discovered {
    let texts = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    Discovered {
        resource: "https://mcp.example/mcp".into(),
        scopes: resource.map(texts),
        issuers: Vec::new(),
        server: AuthorizationServer {
            issuer: "https://as.example".into(),
            authorization: Url::parse("https://as.example/authorize?tenant=1").ok(),
            token: Url::parse("https://as.example/token").unwrap(),
            registration: None,
            revocation: None,
            has_s256: true,
            announces_issuer: false,
            takes_documents: false,
            scopes: texts(server),
            token_authentication: None,
            lifetime: LIFETIME,
        },
        lifetime: LIFETIME,
    }
}

fn request(found: &Discovered) -> Result<Url, AccountError> {
    let request = AuthorizationRequest {
        client_id: "gate",
        redirect: &Url::parse("https://gate.example/oauth/callback").unwrap(),
        scopes: &["a".to_owned(), "b".to_owned()],
        state: "s",
        verifier: "v",
        step_up: None,
    };
    authorization_url(found, &request)
}

#[test]
fn the_request_has_pkce_and_the_resource() {
    let url = request(&found(None, &[])).unwrap();
    let challenge = pkce_challenge("v");
    let query: Vec<(String, String)> = url.query_pairs().into_owned().collect();
    for (name, value) in [
        ("tenant", "1"),
        ("response_type", "code"),
        ("client_id", "gate"),
        ("redirect_uri", "https://gate.example/oauth/callback"),
        ("state", "s"),
        ("code_challenge", &*challenge),
        ("code_challenge_method", "S256"),
        ("resource", "https://mcp.example/mcp"),
        ("scope", "a b"),
    ] {
        assert!(query.contains(&(name.into(), value.into())), "{name}: {query:?}");
    }
    assert!(!url.as_str().contains("code_verifier") && !url.as_str().contains("prompt"));
}

#[test]
fn a_server_without_s256_is_refused() {
    let mut found = found(None, &[]);
    found.server.has_s256 = false;
    assert!(matches!(request(&found), Err(AccountError::Invalid(_))));
}

#[test]
fn scopes_are_those_needed_or_announced_within_the_cap() {
    let texts = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    let choose = |needed: &[&str], resource: Option<&[&str]>, server: &[&str], cap: &[&str]| {
        let cap = texts(cap);
        let cap = (!cap.is_empty()).then_some(&cap[..]);
        choose_scopes(&texts(needed), &found(resource, server), cap).join(" ")
    };
    assert_eq!(choose(&["x", "y", "x"], Some(&["a"]), &[], &[]), "x y");
    assert_eq!(choose(&[], Some(&["a", "b"]), &["a"], &[]), "a b");
    assert_eq!(choose(&[], None, &["a"], &[]), "");
    assert_eq!(choose(&["x", "admin"], None, &["offline_access"], &["x"]), "x offline_access");
    assert_eq!(choose(&[], None, &[], &["x"]), "x");
}

#[test]
fn a_response_of_another_issuer_is_not_used() {
    let issuer = "https://as.example";
    let (good, code) = (Some(issuer), Some("c"));
    assert_eq!(check_response(issuer, true, (good, code, None)), Ok("c"));
    assert_eq!(check_response(issuer, false, (None, code, None)), Ok("c"));
    for iss in ["https://as.example/", "https://AS.example", "https://as.example:443", ""] {
        for announces in [true, false] {
            let found = check_response(issuer, announces, (Some(iss), code, Some("canary")));
            let error = found.unwrap_err().to_string();
            assert!(error.contains("another issuer") && !error.contains("canary"), "{error}");
        }
    }
    assert!(check_response(issuer, true, (None, code, Some("canary"))).is_err());
    let denied = check_response(issuer, true, (good, None, Some("access_denied")));
    assert_eq!(denied, Err(AccountError::Refused("access_denied".into())));
    assert!(check_response(issuer, true, (good, None, None)).is_err());
}
