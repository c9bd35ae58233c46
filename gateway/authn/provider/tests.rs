//! Tests of `provider`. A test of the whole gateway covers answers, with a malicious provider.

use serde_json::json;

use super::*;
use crate::config::Scopes;
use crate::token::tests::issuer;

pub(crate) fn provider(url: &str, edit: impl FnOnce(&mut SignIn)) -> Provider {
    let mut config = SignIn {
        issuer: url.into(),
        client_id: "console".into(),
        client_secret: Some("never shown".into()),
        scopes: vec!["openid".into(), "profile".into()],
        redirect: "https://console.test/console/sign-in/callback".parse().unwrap(),
    };
    edit(&mut config);
    assert!(!format!("{config:?}").contains("never shown"));
    let issuer = Issuer::with_keys(issuer(url), json!({"keys": []}));
    let needs = Arc::new(Needs::compile(&Scopes::default()).unwrap());
    Provider::new(config, issuer, crate::tests::connector(), needs)
}

fn attempt() -> Attempt {
    Attempt { state: "s".into(), nonce: "n".into(), verifier: "v".repeat(64) }
}

/// Creates a provider with fresh metadata.
async fn known_provider() -> Provider {
    let provider = provider("https://as.test", |_| {});
    let document = json!({
        "authorization_endpoint": "https://as.test/auth?tenant=1", "token_endpoint": "https://as.test/token",
        "end_session_endpoint": "https://as.test/end?tenant=1",
    });
    let found = Metadata::read(&document, "https://as.test").map(Arc::new);
    *provider.known.lock().await = Some(CachedMetadata { at: Instant::now(), found });
    provider
}

#[tokio::test]
async fn the_way_there_carries_the_challenge_and_not_the_verifier() {
    let url = known_provider().await.begin(&attempt()).await.unwrap();
    let pairs: Vec<(String, String)> = url.query_pairs().into_owned().collect();
    let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest("v".repeat(64)));
    let expected = [
        ("tenant", "1"),
        ("response_type", "code"),
        ("client_id", "console"),
        ("redirect_uri", "https://console.test/console/sign-in/callback"),
        ("scope", "openid profile"),
        ("state", "s"),
        ("nonce", "n"),
        ("code_challenge", &challenge),
        ("code_challenge_method", "S256"),
    ];
    assert_eq!(pairs, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    assert!(!url.as_str().contains("vvv") && !url.as_str().contains("never"));
}

#[tokio::test]
async fn a_provider_that_is_away_is_not_asked_again_at_once() {
    let provider = provider("http://127.0.0.1:1", |_| {});
    let first = provider.begin(&attempt()).await.unwrap_err();
    assert!(matches!(&first, SignInError::Unreachable(why) if why.contains("connect failed")));
    let asked = provider.known.lock().await.as_ref().unwrap().at;
    let answer = Answer::read([("code".to_owned(), "c".to_owned())]).unwrap();
    assert_eq!(provider.finish(&attempt(), &answer).await.err(), Some(first));
    assert_eq!(provider.known.lock().await.as_ref().unwrap().at, asked);
    provider.known.lock().await.as_mut().unwrap().at = asked.checked_sub(FAILURE_PAUSE).unwrap();
    assert!(provider.begin(&attempt()).await.is_err());
    assert!(provider.known.lock().await.as_ref().unwrap().at > asked);
}

#[tokio::test]
async fn so_many_codes_are_exchanged_at_once() {
    let provider = known_provider().await;
    let _all = provider.exchanges.acquire_many(u32::try_from(MAX_EXCHANGES).unwrap()).await;
    let answer = Answer::read([("code".to_owned(), "c".to_owned())]).unwrap();
    let found = provider.finish(&attempt(), &answer).await.err();
    assert_eq!(found, Some(SignInError::Busy));
}

#[tokio::test]
async fn the_way_out_names_the_client_and_no_token() {
    let url = known_provider().await.end().await.unwrap();
    assert_eq!(url.as_str(), "https://as.test/end?tenant=1&client_id=console");
    let away = provider("http://127.0.0.1:1", |_| {});
    assert_eq!((away.end().await, away.ends_sessions()), (None, false));
}

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

fn written(secret: Option<&str>, place: SecretPlace) -> (HeaderMap, String) {
    let provider = provider("https://as.test", |to| {
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
