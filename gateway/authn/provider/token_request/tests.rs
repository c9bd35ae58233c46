//! Tests of `token_request`.

use serde_json::json;

use super::super::tests::provider;
use super::*;

fn written(secret: Option<&str>, place: SecretPlace) -> (HeaderMap, String) {
    let (provider, _) = provider("https://as.test", |to| {
        to.client_id = "con sole:1".into();
        to.client_secret = secret.map(str::to_owned);
    });
    provider.write(place, "c&d", "verifier").unwrap()
}

#[tokio::test]
async fn the_secret_is_where_it_belongs_and_nowhere_else() {
    let base = "grant_type=authorization_code&code=c%26d&redirect_uri=https%3A%2F%2Fconsole.test%2F\
        console%2Fsign-in%2Fcallback&code_verifier=verifier";
    let (headers, body) = written(Some("p%:ä"), SecretPlace::Header);
    assert_eq!(body, base);
    // con+sole%3A1:p%25%3A%C3%A4
    assert_eq!(headers[AUTHORIZATION], "Basic Y29uK3NvbGUlM0ExOnAlMjUlM0ElQzMlQTQ=");
    assert!(headers[AUTHORIZATION].is_sensitive());
    let (headers, body) = written(Some("secret"), SecretPlace::Body);
    assert_eq!(body, format!("{base}&client_id=con+sole%3A1&client_secret=secret"));
    assert!(!headers.contains_key(AUTHORIZATION));
    for place in [SecretPlace::Header, SecretPlace::Body, SecretPlace::Nowhere] {
        let (headers, body) = written(None, place);
        assert_eq!(body, format!("{base}&client_id=con+sole%3A1"));
        assert!(!headers.contains_key(AUTHORIZATION));
    }
}

#[test]
fn an_answer_is_read_narrowly() {
    let ok = StatusCode::OK;
    let granted = read(ok, &json!({"id_token": "t", "access_token": "a", "scope": "x"})).unwrap();
    assert_eq!((&*granted.id_token, granted.scopes.as_deref()), ("t", Some("x")));
    for (status, answer, expected) in [
        (ok, json!({"access_token": "a"}), SignInError::Token),
        (ok, json!([]), SignInError::Token),
        (StatusCode::BAD_REQUEST, json!({"error": "invalid_grant"}), SignInError::Code),
        (StatusCode::UNAUTHORIZED, json!({"error": "invalid_client"}), SignInError::Client),
        (StatusCode::FOUND, json!({"id_token": "t"}), SignInError::Malformed),
        (StatusCode::BAD_REQUEST, json!({"error": "a b\r\n"}), SignInError::Malformed),
    ] {
        assert_eq!(read(status, &answer).err(), Some(expected), "{status} {answer}");
    }
}
