//! Tests of `signer`: the statements that servers receive, and that each is about the right caller.

use std::collections::HashSet;

use jsonwebtoken::jwk::ThumbprintHash;
use jsonwebtoken::{DecodingKey, Validation, decode, decode_header};
use serde_json::{Value, json};

use super::*;

pub(crate) fn key() -> SigningKey {
    SigningKey::from_pem(&rcgen::KeyPair::generate().unwrap().serialize_pem()).unwrap()
}

fn config(keys: &[&SigningKey]) -> Config {
    let keys = keys.iter().copied().cloned().collect();
    Config { public_url: Url::parse("https://gate.test/base").unwrap(), keys }
}

fn audience(text: &str) -> Arc<str> {
    text.into()
}

fn text(value: Option<HeaderValue>) -> String {
    value.expect("a statement").to_str().unwrap().to_owned()
}

fn key_set(signer: &Signer) -> JwkSet {
    serde_json::from_str(&signer.key_set(KEY_SET).unwrap()).unwrap()
}

/// Verifies a statement as a server does, and returns its claims.
fn verify(token: &str, keys: &JwkSet, audience: &str) -> Result<Value, String> {
    let header = decode_header(token).unwrap();
    assert_eq!(header.typ.as_deref(), Some("JWT"));
    let key = keys.find(&header.kid.unwrap()).ok_or("an unknown key")?;
    let mut rules = Validation::new(Algorithm::ES256);
    rules.set_audience(&[audience]);
    rules.set_issuer(&["https://gate.test/base"]);
    rules.set_required_spec_claims(&["iss", "sub", "aud", "exp"]);
    let decoded = decode::<Value>(token, &DecodingKey::from_jwk(key).unwrap(), &rules);
    decoded.map(|decoded| decoded.claims).map_err(|error| error.to_string())
}

#[test]
fn a_server_learns_who_calls_and_nothing_else() {
    let pair = key();
    let signer = Signer::new(Some(&config(&[&pair])));
    let mut alice = Identity::new("https://login.test", "alice").in_organisation(Some("acme"));
    alice.roles = Box::from(["role-of-alice".into()]);
    alice.scopes = Box::from(["scope-of-alice".into()]);
    alice.agent = Some("desktop".into());
    alice.key_name = Some("laptop".into());
    let token = text(signer.sign_caller(&alice, &audience("https://crm.test")));
    let mut claims = verify(&token, &key_set(&signer), "https://crm.test").unwrap();
    let at = claims["iat"].as_u64().unwrap();
    assert!(now() - at < 10 && claims["exp"] == at + 60);
    for time in ["iat", "exp"] {
        claims.as_object_mut().unwrap().remove(time);
    }
    assert_eq!(
        claims,
        json!({"iss": "https://gate.test/base", "sub": "https://login.test|alice",
            "aud": "https://crm.test", "org": "acme", "client_id": "desktop",
            "key_name": "laptop"})
    );
    let other = verify(&token, &key_set(&signer), "https://other.test").unwrap_err();
    assert!(other.contains("Audience"), "{other}");
    let plain = text(signer.sign_caller(&Identity::new("key", "k1"), &audience("a")));
    let plain = verify(&plain, &key_set(&signer), "a").unwrap();
    assert_eq!((&plain["sub"], &plain["org"]), (&json!("key|k1"), &json!("default")));
    assert!(plain.get("client_id").is_none() && plain.get("key_name").is_none());
    let own = verify(&text(signer.sign_own(&audience("a"))), &key_set(&signer), "a").unwrap();
    assert_eq!((&own["sub"], own.get("org")), (&json!("gateway"), None));
}

/// Callers that differ in any claim have separate statements, in any order of requests.
#[test]
fn nobody_gets_the_statement_of_another() {
    let pair = key();
    let signer = Signer::new(Some(&config(&[&pair])));
    let mut agent = Identity::new("key", "a");
    agent.agent = Some("x".into());
    let mut named = Identity::new("key", "a");
    named.key_name = Some("x".into());
    let callers = [
        Identity::new("key", "a"),
        Identity::new("key", "b"),
        Identity::new("local", "a"),
        Identity::new("key", "a").in_organisation(Some("acme")),
        Identity::new("certificate:a|b", "c"),
        Identity::new("certificate:a", "b|c"),
        Identity::new("certificate:a%7Cb", "c"),
        agent,
        named,
    ];
    let mut seen = HashSet::new();
    let mut subjects = HashSet::new();
    for _ in 0..2 {
        for caller in &callers {
            for server in ["one", "two"] {
                let token = text(signer.sign_caller(caller, &audience(server)));
                let claims = verify(&token, &key_set(&signer), server).unwrap();
                let organisation = claims["org"].as_str().unwrap().to_owned();
                assert_eq!(organisation, caller.organisation());
                assert_eq!(claims["client_id"].as_str(), caller.agent.as_deref());
                assert_eq!(claims["key_name"].as_str(), caller.key_name.as_deref());
                subjects.insert((claims["sub"].as_str().unwrap().to_owned(), organisation));
                seen.insert(token);
            }
        }
    }
    // Statements are reused; callers that differ only in agent or key name share a subject.
    assert_eq!((seen.len(), subjects.len()), (callers.len() * 2, callers.len() - 2));
}

#[test]
fn a_statement_is_used_again_for_half_of_its_life() {
    let pair = key();
    let signer = Signer::new(Some(&config(&[&pair])));
    let one = Statement { audience: audience("a"), about: None };
    let begin = now();
    let sign = |at: u64| text(signer.sign(one.clone(), at));
    let first = sign(begin);
    assert_eq!((&sign(begin), &sign(begin + 29)), (&first, &first));
    let second = sign(begin + 30);
    assert_ne!(second, first);
    let claims = verify(&second, &key_set(&signer), "a").unwrap();
    assert_eq!((&claims["iat"], &claims["exp"]), (&json!(begin + 30), &json!(begin + 90)));
    assert_eq!(sign(begin + 59), second);
    // If the clock is set back, a cached statement lies in the future and is not reused.
    assert_ne!(sign(begin + 20), second);
}

#[test]
fn the_first_key_signs_and_all_are_published() {
    let (old, new) = (key(), key());
    let signer = Signer::new(Some(&config(&[&old])));
    let alice = Identity::new("key", "alice");
    let token = || text(signer.sign_caller(&alice, &audience("a")));
    let before = token();
    signer.adopt(Some(&config(&[&old, &new])));
    assert_eq!(decode_header(before.as_bytes()).unwrap().kid.as_deref(), Some(old.id()));
    assert_eq!(decode_header(token()).unwrap().kid.as_deref(), Some(old.id()));
    signer.adopt(Some(&config(&[&new, &old])));
    let keys = key_set(&signer);
    let after = token();
    assert_eq!(decode_header(&after).unwrap().kid.as_deref(), Some(new.id()));
    for token in [&before, &after] {
        assert_eq!(verify(token, &keys, "a").unwrap()["sub"], "key|alice");
    }
    let kept = token();
    signer.adopt(Some(&config(&[&new, &old])));
    assert_eq!(token(), kept, "nothing has changed");
    signer.adopt(Some(&config(&[&new])));
    assert_eq!(verify(&before, &key_set(&signer), "a").unwrap_err(), "an unknown key");
    signer.adopt(None);
    assert!(signer.sign_caller(&alice, &audience("a")).is_none());
    assert!(signer.key_set(KEY_SET).is_none());
}

#[test]
fn the_key_set_is_public_and_holds_no_private_part() {
    let pair = key();
    let signer = Signer::new(Some(&config(&[&pair])));
    for (path, is_there) in [
        (KEY_SET, true),
        ("/base/.well-known/jwks.json", true),
        ("/other/.well-known/jwks.json", false),
        ("/base/base/.well-known/jwks.json", false),
        ("/.well-known/jwks.json/", false),
        ("/", false),
    ] {
        assert_eq!(signer.key_set(path).is_some(), is_there, "{path}");
    }
    let set: Value = serde_json::from_str(&signer.key_set(KEY_SET).unwrap()).unwrap();
    let key = set["keys"][0].as_object().unwrap();
    let mut members: Vec<&str> = key.keys().map(String::as_str).collect();
    members.sort_unstable();
    assert_eq!(members, ["alg", "crv", "kid", "kty", "use", "x", "y"]);
    assert_eq!((&key["alg"], &key["use"]), (&json!("ES256"), &json!("sig")));
    let thumbprint = key_set(&signer).keys[0].thumbprint(ThumbprintHash::SHA256).unwrap();
    assert_eq!(key["kid"], thumbprint);
}

#[test]
fn keys_are_read_from_pem_and_nothing_else_is() {
    let pem = rcgen::KeyPair::generate().unwrap().serialize_pem();
    let crlf = format!("made by hand\r\n{}", pem.replace('\n', "\r\n"));
    assert_eq!(SigningKey::from_pem(&pem).unwrap(), SigningKey::from_pem(&crlf).unwrap());
    let larger = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P384_SHA384).unwrap();
    let edwards = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap();
    let public = rcgen::KeyPair::generate().unwrap();
    let public = rcgen::PublicKeyData::subject_public_key_info(&public);
    let public = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, public);
    let public = format!("-----BEGIN PUBLIC KEY-----\n{public}\n-----END PUBLIC KEY-----\n");
    let cut = &pem[..pem.len() / 2];
    for (text, problem) in [
        ("", SigningKeyError::Form),
        ("secret", SigningKeyError::Form),
        (cut, SigningKeyError::Form),
        (&public, SigningKeyError::Form),
        (&pem.replace("PRIVATE", "EC PRIVATE"), SigningKeyError::Form),
        (&larger.serialize_pem(), SigningKeyError::Kind),
        (&edwards.serialize_pem(), SigningKeyError::Kind),
    ] {
        assert_eq!(SigningKey::from_pem(text), Err(problem), "{text}");
    }
    let shown = format!("{:?}", config(&[&SigningKey::from_pem(&pem).unwrap()]));
    assert!(shown.contains("SigningKey") && !shown.contains("private"), "{shown}");
    let signer = Signer::new(Some(&config(&[&SigningKey::from_pem(&pem).unwrap()])));
    assert!(signer.sign_own(&audience("a")).unwrap().is_sensitive(), "it is shown by nobody");
}
