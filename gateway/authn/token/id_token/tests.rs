//! Tests of `id_token`.

use serde_json::json;

use super::*;
use crate::config::{Claims, Issuer as Named, Scopes};
use crate::token::now;
use crate::token::tests::{Pair, encode, issuer};

const ISSUER: &str = "https://issuer.test";

fn issuer_with(pair: &Pair, edit: impl FnOnce(&mut Named)) -> std::sync::Arc<Issuer> {
    let _ = jsonwebtoken::crypto::aws_lc::DEFAULT_PROVIDER.install_default();
    let mut named = issuer(ISSUER);
    named.claims = Claims {
        organisation: Some("org_id".into()),
        roles: Some("/realm/roles".into()),
        ..Claims::default()
    };
    edit(&mut named);
    Issuer::with_keys(named, json!({"keys": [pair.jwk("k")]}))
}

fn claims() -> Value {
    json!({
        "iss": ISSUER, "sub": "ada", "aud": "console", "nonce": "n-1", "org_id": "acme", "realm": {"roles": ["boss"]},
        "iat": now(), "exp": now() + 300,
    })
}

async fn ask(token: &str, issuer: &Issuer) -> Result<Identity, SignInError> {
    let needs = Needs::compile(&Scopes::default()).unwrap();
    let expected = Expected { client_id: "console", nonce: "n-1", granted: "openid mcp:call" };
    verify(token, issuer, &expected, &needs).await
}

fn header() -> Value {
    json!({"alg": "ES256", "kid": "k"})
}

#[tokio::test]
async fn an_account_is_who_its_access_tokens_say() {
    let pair = Pair::ec();
    let issuer = issuer_with(&pair, |_| {});
    for typ in [None, Some("JWT"), Some("application/jwt")] {
        let mut header = header();
        if let Some(typ) = typ {
            header["typ"] = typ.into();
        }
        let found = ask(&pair.token(&header, &claims()), &issuer).await.unwrap();
        assert_eq!(
            (&*found.issuer, &*found.subject, found.organisation()),
            (ISSUER, "ada", "acme")
        );
        assert_eq!(found.roles.iter().map(AsRef::as_ref).collect::<Vec<_>>(), ["boss"]);
        assert!(found.has_scope("mcp:call"), "those that were granted along with it");
    }
    let mut own = claims();
    own["scope"] = "less".into();
    let found = ask(&pair.token(&header(), &own), &issuer).await.unwrap();
    assert!(found.has_scope("less") && !found.has_scope("mcp:call"), "its own decide");
}

#[tokio::test]
async fn a_token_that_says_anything_else_signs_nobody_in() {
    use SignInError as E;
    let pair = Pair::ec();
    let issuer = issuer_with(&pair, |_| {});
    let organisation = || E::NoOrganisation("org_id".into());
    for (member, value, expected) in [
        ("iss", json!("https://evil.test"), E::Issuer),
        ("iss", json!("https://issuer.test/"), E::Issuer),
        ("iss", Value::Null, E::Issuer),
        ("aud", json!("other"), E::Audience),
        ("aud", json!(["other"]), E::Audience),
        ("aud", json!(["console", "other"]), E::Audience),
        ("aud", json!([]), E::Audience),
        ("aud", Value::Null, E::Audience),
        ("azp", json!("other"), E::Audience),
        ("azp", json!(1), E::Audience),
        ("nonce", json!("n-2"), E::Nonce),
        ("nonce", Value::Null, E::Nonce),
        ("nonce", json!(["n-1"]), E::Nonce),
        ("exp", json!(now() - 31), E::Clock),
        ("exp", Value::Null, E::Token),
        ("exp", json!("soon"), E::Token),
        ("iat", json!(now() + 90), E::Clock),
        ("iat", json!("now"), E::Token),
        ("nbf", json!(now() + 90), E::Clock),
        ("sub", Value::Null, E::NoSubject),
        ("sub", json!(""), E::NoSubject),
        ("org_id", Value::Null, organisation()),
        ("org_id", json!(["acme"]), organisation()),
    ] {
        let mut claims = claims();
        claims[member] = value.clone();
        let found = ask(&pair.token(&header(), &claims), &issuer).await.err();
        assert_eq!(found, Some(expected), "{member} {value}");
    }
    let mut without = claims();
    without.as_object_mut().unwrap().remove("iat");
    assert_eq!(ask(&pair.token(&header(), &without), &issuer).await.err(), Some(E::Token));
}

#[tokio::test]
async fn a_token_for_several_is_taken_by_whoever_asked_for_it() {
    let pair = Pair::ec();
    let issuer = issuer_with(&pair, |_| {});
    let mut claims = claims();
    claims["aud"] = json!(["console", "project"]);
    claims["azp"] = json!("console");
    // Within the allowed clock skew.
    claims["exp"] = json!(now() - 20);
    claims["iat"] = json!(now() + 20);
    assert!(ask(&pair.token(&header(), &claims), &issuer).await.is_ok());
}

#[tokio::test]
async fn only_the_issuers_keys_and_algorithms_count() {
    let (pair, other) = (Pair::ec(), Pair::ec());
    let issuer = issuer_with(&pair, |_| {});
    let claims = claims();
    let with = |alg: &str| json!({"alg": alg, "kid": "k"});
    let unsigned =
        |alg: &str| format!("{}.{}.", encode(with(alg).to_string()), encode(claims.to_string()));
    let good = pair.token(&header(), &claims);
    let (signed, _) = good.rsplit_once('.').unwrap();
    let refused = [
        other.token(&header(), &claims),
        pair.token(&with("none"), &claims),
        pair.token(&with("HS256"), &claims),
        pair.token(&with("RS256"), &claims),
        pair.token(
            &json!({"alg": "ES256", "kid": "k", "jwk": other.jwk("k"), "crit": []}),
            &claims,
        ),
        pair.token(&json!({"alg": "ES256", "kid": "k", "typ": "at+jwt"}), &claims),
        pair.token(&json!({"alg": "ES256", "kid": "k", "typ": "logout+jwt"}), &claims),
        unsigned("none"),
        format!("{}AA", unsigned("none")),
        format!("{signed}."),
        format!("{signed}.AAAA"),
        format!("{good}.x"),
        String::new(),
        "x".repeat(20_000),
    ];
    for token in refused {
        assert_eq!(ask(&token, &issuer).await.err(), Some(SignInError::Token), "{token}");
    }
    let narrow = issuer_with(&pair, |named| named.algorithms = vec![crate::Algorithm::RS256]);
    assert_eq!(ask(&good, &narrow).await.err(), Some(SignInError::Token));
    assert!(ask(&good, &issuer).await.is_ok());
}
