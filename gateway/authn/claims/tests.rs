//! Tests of `claims`.

use serde_json::json;

use super::*;
use crate::config::Scopes;

fn identity_of(claims: &Value, places: &Claims) -> Option<Identity> {
    identity(claims, "https://issuer.test", places, &Needs::compile(&Scopes::default()).unwrap())
}

fn texts(all: &[std::sync::Arc<str>]) -> Vec<&str> {
    all.iter().map(AsRef::as_ref).collect()
}

#[test]
fn claims_are_found_where_the_configuration_says() {
    let places = Claims {
        organisation: Some("https://issuer.test/org".into()),
        roles: Some("/realm_access/roles".into()),
        ..Claims::default()
    };
    let claims = json!({
        "sub": "ada", "scope": "mcp:call  files:read", "client_id": "desk", "azp": "other",
        "https://issuer.test/org": "acme", "realm_access": {"roles": ["dev", 7, "", "ops"]},
    });
    let identity = identity_of(&claims, &places).unwrap();
    assert_eq!((&*identity.issuer, &*identity.subject), ("https://issuer.test", "ada"));
    assert_eq!(identity.named_organisation(), Some("acme"));
    assert_eq!(texts(&identity.roles), ["dev", "ops"]);
    assert_eq!(texts(&identity.scopes), ["files:read", "mcp:call"]);
    assert_eq!(identity.agent.as_deref(), Some("desk"));
}

#[test]
fn lists_and_single_texts_are_both_taken() {
    let places = Claims { roles: Some("groups".into()), ..Claims::default() };
    let one =
        identity_of(&json!({"sub": "a", "groups": "the one", "scp": ["a", "b c", "d"]}), &places)
            .unwrap();
    assert_eq!(texts(&one.roles), ["the one"]);
    assert_eq!(texts(&one.scopes), ["a", "d"], "a scope has no blank");
    let none = identity_of(&json!({"sub": "a", "groups": {"x": 1}, "scope": 5}), &places).unwrap();
    assert!(none.roles.is_empty() && none.scopes.is_empty());
}

#[test]
fn without_a_usable_subject_there_is_nobody() {
    for sub in
        [json!(null), json!(""), json!(7), json!(["a"]), json!("a\nb"), json!("x".repeat(513))]
    {
        assert!(identity_of(&json!({"sub": sub}), &Claims::default()).is_none(), "{sub}");
    }
    assert!(identity_of(&json!({}), &Claims::default()).is_none());
}

/// Its holder must not become a member of the default organisation.
#[test]
fn an_organisation_that_is_no_name_is_no_identity() {
    let places = Claims { organisation: Some("org".into()), ..Claims::default() };
    for name in ["acme ", "a\0", "a\u{a0}b", "a/b", ""] {
        assert!(identity_of(&json!({"sub": "a", "org": name}), &places).is_none(), "{name:?}");
    }
    let named = identity_of(&json!({"sub": "a", "org": "Acme GmbH & Co. KG"}), &places).unwrap();
    assert_eq!(named.organisation(), "Acme GmbH & Co. KG");
}

#[test]
fn what_a_token_grants_is_bounded() {
    let many: Vec<String> = (0..5000).map(|n| format!("r{n}")).collect();
    let places = Claims { roles: Some("roles".into()), ..Claims::default() };
    let identity =
        identity_of(&json!({"sub": "a", "roles": many, "scope": many.join(" ")}), &places).unwrap();
    assert_eq!((identity.roles.len(), identity.scopes.len()), (MAX_ROLES, MAX_SCOPES));
}
