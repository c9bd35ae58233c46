//! Tests of `parts`: each fault is recorded with its own code.

use serde_json::json;

use crate::principal::{AuthnError, RefusedToken};
use crate::resource::Resource;
use crate::scope::Needs;
use crate::token::tests::{ISSUER, Pair, claims, set, tokens};
use crate::token::{Shown, Tokens};
use lockgate_text::date::now;

async fn refused(tokens: &Tokens, token: &str) -> (AuthnError, RefusedToken) {
    let needs = Needs::compile(&crate::config::Scopes::default()).unwrap();
    let shown = Shown { resource: Resource::All, certificate: None };
    let digest = blake3::hash(token.as_bytes());
    let refused = tokens.holder(token, digest.as_bytes(), &needs, shown).await.expect_err(token);
    (refused.why, *refused.token.expect(token))
}

#[tokio::test]
async fn each_fault_has_its_code() {
    let (pair, other) = (Pair::ec(), Pair::ec());
    let tokens = tokens(&[(ISSUER, set(&[pair.jwk("a")]))]);
    let header = |typ: &str, alg: &str| json!({"alg": alg, "kid": "a", "typ": typ});
    let cases = [
        (pair.good("a", |claims| claims["exp"] = json!(null)), "claim", Some("exp"), ISSUER),
        (pair.good("a", |claims| claims["nbf"] = json!(now() + 600)), "early", Some("nbf"), ISSUER),
        (pair.good("a", |claims| claims["iss"] = json!("x")), "issuer", Some("iss"), "x"),
        (pair.good("a", |claims| claims["sub"] = json!(null)), "claim", Some("sub"), ISSUER),
        (pair.good("a", |claims| claims["cnf"] = json!({})), "claim", Some("cnf"), ISSUER),
        (pair.token(&header("jwt", "HS256"), &claims()), "alg", None, ISSUER),
        (pair.token(&header("dpop+jwt", "ES256"), &claims()), "typ", None, ISSUER),
        (other.good("a", |_| {}), "signature", None, ISSUER),
    ];
    for (token, fault, claim, issuer) in cases {
        let (why, told) = refused(&tokens, &token).await;
        assert_eq!((why, told.fault, told.claim), (AuthnError::Invalid, fault, claim), "{token}");
        assert_eq!((told.issuer.as_deref(), told.kid.as_deref()), (Some(issuer), Some("a")));
    }
    let (_, told) = refused(&tokens, &pair.good("b", |_| {})).await;
    assert_eq!((told.fault, told.kid.as_deref()), ("kid", Some("b")));
    let (_, told) = refused(&tokens, "no.token").await;
    assert_eq!((told.fault, told.issuer), ("form", None));
}
