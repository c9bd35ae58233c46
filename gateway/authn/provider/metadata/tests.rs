//! Tests of `metadata`.

use serde_json::json;

use super::*;

const ISSUER: &str = "https://as.test";

fn document(edit: impl FnOnce(&mut Value)) -> Value {
    let mut document = json!({
        "issuer": ISSUER,
        "authorization_endpoint": "https://as.test/auth?tenant=1",
        "token_endpoint": "https://token.test/",
    });
    edit(&mut document);
    document
}

#[test]
fn what_is_missing_or_weaker_than_it_has_to_be_is_named() {
    for (member, value, words) in [
        ("authorization_endpoint", Value::Null, "no `authorization_endpoint`"),
        ("authorization_endpoint", json!("http://as.test/auth"), "is not https"),
        ("authorization_endpoint", json!("javascript:alert(1)"), "is not https"),
        ("token_endpoint", json!("/token"), "no `token_endpoint`"),
        ("token_endpoint", json!("http://as.test/token"), "is not https"),
        ("code_challenge_methods_supported", json!(["plain"]), "PKCE"),
        ("response_types_supported", json!(["id_token"]), "response type `code`"),
    ] {
        let document = document(|document| document[member] = value.clone());
        let fault = Metadata::read(&document, ISSUER).err().unwrap_or_default();
        assert!(fault.contains(words), "{member} {value}: {fault}");
    }
    assert!(Metadata::read(&document(|_| {}), ISSUER).is_ok());
}

#[test]
fn the_secret_goes_where_the_provider_wants_it() {
    for (methods, expected) in [
        (Value::Null, SecretPlace::Header),
        (json!(["client_secret_post", "client_secret_basic"]), SecretPlace::Header),
        (json!(["client_secret_post", "none"]), SecretPlace::Body),
        (json!(["private_key_jwt"]), SecretPlace::Nowhere),
        (json!([]), SecretPlace::Nowhere),
    ] {
        let document =
            document(|document| document["token_endpoint_auth_methods_supported"] = methods);
        assert_eq!(Metadata::read(&document, ISSUER).unwrap().secret_place, expected);
    }
}

#[test]
fn a_provider_says_whether_its_answers_name_it() {
    for (value, expected) in [(json!(true), true), (json!(false), false), (json!("true"), false)] {
        let name = "authorization_response_iss_parameter_supported";
        let document = document(|document| document[name] = value);
        assert_eq!(Metadata::read(&document, ISSUER).unwrap().announces_issuer, expected);
    }
}

#[test]
fn where_people_are_signed_out_is_known_where_it_is_said_and_safe() {
    for (value, expected) in [
        (Value::Null, None),
        (json!("https://as.test/end?tenant=1"), Some("https://as.test/end?tenant=1")),
        (json!("http://as.test/end"), None),
        (json!("javascript:alert(1)"), None),
        (json!(7), None),
    ] {
        let document = document(|document| document["end_session_endpoint"] = value);
        let metadata = Metadata::read(&document, ISSUER).unwrap();
        assert_eq!(metadata.end_session.as_ref().map(Url::as_str), expected);
    }
}
