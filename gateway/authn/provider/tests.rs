//! Tests of `provider`. A test of the whole gateway covers answers, with a malicious provider.

use serde_json::json;

use super::*;
use crate::config::Scopes;
use crate::token::tests::issuer;

pub(crate) fn provider(url: &str, edit: impl FnOnce(&mut SignIn)) -> (Provider, Needs) {
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
    let needs = Needs::compile(&Scopes::default()).unwrap();
    (Provider::new(config, issuer, crate::tests::outside()), needs)
}

fn attempt() -> Attempt {
    Attempt { state: "s".into(), nonce: "n".into(), verifier: "v".repeat(64) }
}

/// Creates a provider with fresh metadata.
async fn known_provider() -> Provider {
    let (provider, _) = provider("https://as.test", |_| {});
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
    let (provider, needs) = provider("http://127.0.0.1:1", |_| {});
    let first = provider.begin(&attempt()).await.unwrap_err();
    assert!(matches!(&first, SignInError::Unreachable(why) if why.contains("connect failed")));
    let asked = provider.known.lock().await.as_ref().unwrap().at;
    let answer = Answer::read([("code".to_owned(), "c".to_owned())]).unwrap();
    assert_eq!(provider.finish(&attempt(), &answer, &needs).await.err(), Some(first));
    assert_eq!(provider.known.lock().await.as_ref().unwrap().at, asked);
    provider.known.lock().await.as_mut().unwrap().at = asked.checked_sub(FAILURE_PAUSE).unwrap();
    assert!(provider.begin(&attempt()).await.is_err());
    assert!(provider.known.lock().await.as_ref().unwrap().at > asked);
}

#[tokio::test]
async fn so_many_codes_are_exchanged_at_once() {
    let provider = known_provider().await;
    let needs = Needs::compile(&Scopes::default()).unwrap();
    let _all = provider.exchanges.acquire_many(u32::try_from(MAX_EXCHANGES).unwrap()).await;
    let answer = Answer::read([("code".to_owned(), "c".to_owned())]).unwrap();
    let found = provider.finish(&attempt(), &answer, &needs).await.err();
    assert_eq!(found, Some(SignInError::Busy));
}

#[tokio::test]
async fn the_way_out_names_the_client_and_no_token() {
    let url = known_provider().await.end().await.unwrap();
    assert_eq!(url.as_str(), "https://as.test/end?tenant=1&client_id=console");
    let (away, _) = provider("http://127.0.0.1:1", |_| {});
    assert_eq!((away.end().await, away.ends_sessions()), (None, false));
}
