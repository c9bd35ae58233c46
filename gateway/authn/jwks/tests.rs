//! Tests of `jwks`: usable keys, and an issuer on loopback that rotates its keys, fails and
//! recovers.

use std::sync::atomic::AtomicUsize;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;
use crate::token::tests::{Pair, issuer};

const RSA_N: &str = "u1SU1LfVLPHCozMxH2Mo4lgOEePzNm0tRgeLezV6ffAt0gunVTLw7onLRnrq0_IzW7yWR7QkrmBL7jTKEn5u-qKhbwKfBstIs-bMY2Zkp18gnTxKLxoS2tFczGkPLPgizskuemMghRniWaoLcyehkd3qqGElvW_VDL5AaWTg0nLVkjRo9z-40RQzuVaE8AkAFmxZzow3x-VJYKdjykkJ0iT9wCS0DRTXu269V264Vf_3jvredZiKRkgwlL9xNAwxXFg0x_XFw005UWVRIkdgcKWTjpBP2dPwVZ4WWC-9aGVd-Gyn1o0CLelf4rEjGoXbAAEgAqeGUxrcIlbjXfbcmw";

fn algorithms(key: &Value) -> Vec<Algorithm> {
    usable(key, &issuer("https://issuer.test").algorithms)
        .map(|key| key.algorithms)
        .unwrap_or_default()
}

#[test]
fn a_key_is_good_for_what_it_was_made_for_alone() {
    let ec = |more: Value| {
        let mut key = Pair::ec().jwk("a");
        key.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        key
    };
    assert_eq!(algorithms(&ec(json!({}))), [Algorithm::ES256]);
    assert_eq!(algorithms(&ec(json!({"alg": "ES256", "key_ops": ["verify"]}))), [Algorithm::ES256]);
    let rsa = json!({"kty": "RSA", "n": RSA_N, "e": "AQAB"});
    assert_eq!(algorithms(&rsa), [Algorithm::RS256], "only what is configured");
    let unusable = [
        ec(json!({"use": "enc"})),
        ec(json!({"key_ops": ["sign"]})),
        ec(json!({"alg": "RS256"})),
        ec(json!({"alg": "ES384"})),
        ec(json!({"crv": "P-521"})),
        ec(json!({"alg": "HS256"})),
        json!({"kty": "RSA", "n": RSA_N, "e": "AQAB", "alg": "RS512"}),
        json!({"kty": "RSA", "n": RSA_N, "e": "AQAB", "alg": "RSA-OAEP"}),
        json!({"kty": "oct", "k": "c2VjcmV0", "alg": "HS256"}),
        json!({"kty": "oct", "k": "c2VjcmV0"}),
        json!({"kty": "future"}),
        json!("text"),
    ];
    for key in unusable {
        assert!(algorithms(&key).is_empty(), "{key}");
    }
}

#[test]
fn a_set_is_an_array_of_keys_of_which_the_usable_ones_are_taken() {
    let allowed = issuer("https://issuer.test").algorithms;
    for set in [json!({}), json!([]), json!({"keys": {}}), json!({"keys": null})] {
        assert!(parse(&set, &allowed).is_err(), "{set}");
    }
    for set in
        [json!({"keys": []}), json!({"keys": [7]}), json!({"keys": [{"kty": "oct", "k": "AA"}]})]
    {
        assert!(parse(&set, &allowed).unwrap().is_empty(), "{set}");
    }
    let many: Vec<Value> = (0..MAX_KEYS * 2).map(|n| Pair::ec().jwk(&n.to_string())).collect();
    assert_eq!(parse(&json!({"keys": many}), &allowed).unwrap().len(), MAX_KEYS);
}

/// The status of a response that is never sent.
const HANGS: &str = "hangs";

/// An issuer's key endpoint on loopback. It sends the current `answer` on every connection.
struct Mock {
    url: String,
    answer: Arc<Mutex<String>>,
    /// Another answer for paths that contain this text.
    apart: Arc<Mutex<Option<(&'static str, String)>>>,
    asked: Arc<AtomicUsize>,
}

impl Mock {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (answer, asked) = (Arc::new(Mutex::new(String::new())), Arc::new(AtomicUsize::new(0)));
        let apart: Arc<Mutex<Option<(&str, String)>>> = Arc::default();
        let mock = Self {
            url,
            answer: Arc::clone(&answer),
            apart: Arc::clone(&apart),
            asked: Arc::clone(&asked),
        };
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut head = [0; 4096];
                let _ = stream.read(&mut head).await;
                asked.fetch_add(1, Ordering::SeqCst);
                let head = String::from_utf8_lossy(&head);
                let apart = apart.lock().clone().filter(|(path, _)| head.contains(path));
                let text = apart.map_or_else(|| answer.lock().clone(), |(_, text)| text);
                if text.contains(HANGS) {
                    tokio::spawn(async move { (stream.read(&mut [0]).await, stream) });
                    continue;
                }
                let _ = stream.write_all(text.as_bytes()).await;
            }
        });
        mock
    }

    fn say(&self, status: &str, body: &str) {
        *self.answer.lock() = written(status, body);
    }

    fn keys(&self, keys: &[Value]) {
        self.say("200 OK", &json!({"keys": keys}).to_string());
    }

    fn issuer(&self, edit: impl FnOnce(&mut config::Issuer)) -> Arc<Issuer> {
        let mut config = issuer(&self.url);
        config.jwks = Some(format!("{}/jwks", self.url).parse().unwrap());
        config.cooldown = Duration::ZERO;
        edit(&mut config);
        Issuer::start(config, crate::tests::connector())
    }
}

fn written(status: &str, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}")
}

fn ids(issuer: &Issuer) -> Vec<String> {
    let keys = issuer
        .keys()
        .map(|keys| keys.iter().filter_map(|key| key.id.as_deref().map(Into::into)).collect());
    keys.unwrap_or_default()
}

#[tokio::test]
async fn rotated_keys_come_with_the_first_token_that_names_them() {
    let mock = Mock::start().await;
    mock.keys(&[Pair::ec().jwk("one")]);
    let issuer = mock.issuer(|_| {});
    assert!(issuer.refreshed().await);
    assert_eq!(ids(&issuer), ["one"]);
    let generation = issuer.generation();
    assert!(issuer.refreshed().await);
    mock.keys(&[Pair::ec().jwk("two")]);
    assert!(issuer.refreshed().await);
    assert_eq!(ids(&issuer), ["two"]);
    assert_eq!(issuer.generation(), generation + 1, "the same set is the same generation");
}

#[tokio::test]
async fn unknown_key_ids_do_not_make_us_ask_again_and_again() {
    let mock = Mock::start().await;
    mock.keys(&[Pair::ec().jwk("one")]);
    let issuer = mock.issuer(|config| config.cooldown = Duration::from_secs(600));
    assert!(issuer.refreshed().await);
    assert!(issuer.refreshed().await, "once, because they may be new by now");
    for _ in 0..100 {
        assert!(!issuer.refreshed().await);
    }
    assert_eq!(mock.asked.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn a_server_of_keys_that_hangs_costs_a_second_and_no_more() {
    let mock = Mock::start().await;
    mock.say(HANGS, "");
    let issuer = mock.issuer(|_| {});
    let began = Instant::now();
    assert!(!issuer.refreshed().await);
    assert!((Duration::from_millis(900)..Duration::from_secs(3)).contains(&began.elapsed()));
    mock.keys(&[Pair::ec().jwk("one")]);
    assert!(issuer.refreshed().await, "the second attempt does not wait for the first");
    assert_eq!(ids(&issuer), ["one"]);
}

#[tokio::test]
async fn old_keys_are_used_while_fetching_fails_but_not_for_ever() {
    let mock = Mock::start().await;
    mock.keys(&[Pair::ec().jwk("one")]);
    let (kept, strict) = (mock.issuer(|_| {}), mock.issuer(|config| config.stale = Duration::ZERO));
    assert!(kept.refreshed().await && strict.refreshed().await);
    let large = format!("{{\"keys\":[],\"pad\":\"{}\"}}", "x".repeat(300_000));
    for (status, body) in [
        ("500 Internal Server Error", "{}"),
        ("302 Found\r\nlocation: http://127.0.0.1:1/", ""),
        ("200 OK", "not json"),
        ("200 OK", "{\"keys\":7}"),
        ("200 OK", &large),
    ] {
        mock.say(status, body);
        assert!(kept.refreshed().await, "{status}");
        assert_eq!(ids(&kept), ["one"], "{status} {}", body.len());
        assert!(strict.refreshed().await);
        assert!(strict.keys().is_none());
    }
    mock.keys(&[Pair::ec().jwk("two")]);
    assert!(kept.refreshed().await && strict.refreshed().await);
    assert_eq!((ids(&kept), ids(&strict)), (vec!["two".to_owned()], vec!["two".to_owned()]));
}

/// An issuer publishes an empty set after its keys have leaked.
#[tokio::test]
async fn keys_that_an_issuer_takes_back_are_gone() {
    let mock = Mock::start().await;
    for emptied in [json!([]), json!([{"kty": "oct", "k": "AA"}])] {
        mock.keys(&[Pair::ec().jwk("one")]);
        let issuer = mock.issuer(|_| {});
        assert!(issuer.refreshed().await);
        let generation = issuer.generation();
        mock.say("200 OK", &json!({"keys": emptied}).to_string());
        assert!(issuer.refreshed().await);
        assert_eq!(ids(&issuer), [""; 0], "{emptied}");
        assert!(issuer.generation() > generation, "what was verified with them is verified again");
    }
}

#[tokio::test]
async fn metadata_that_names_no_keys_is_not_the_last_place_to_look() {
    let mock = Mock::start().await;
    let named = json!({"issuer": mock.url, "jwks_uri": format!("{}/jwks", mock.url)});
    mock.say("200 OK", &json!({"issuer": mock.url}).to_string());
    *mock.apart.lock() = Some(("openid-configuration", written("200 OK", &named.to_string())));
    let found = discover(&mock.url, &crate::tests::connector()).await;
    assert_eq!(found.unwrap().path(), "/jwks");
    mock.apart.lock().take();
    let none = discover(&mock.url, &crate::tests::connector()).await.unwrap_err();
    assert!(
        none.contains("jwks_uri") && none.contains("/.well-known/openid-configuration"),
        "{none}"
    );
}

#[tokio::test]
async fn keys_are_found_by_discovery() {
    let mock = Mock::start().await;
    // The same body serves as metadata and as key set.
    let body = json!({"issuer": mock.url, "jwks_uri": format!("{}/jwks", mock.url), "keys": [Pair::ec().jwk("one")]});
    mock.say("200 OK", &body.to_string());
    let found = mock.issuer(|config| config.jwks = None);
    assert!(found.refreshed().await);
    assert_eq!(ids(&found), ["one"]);
    let foreign = mock.issuer(|config| {
        config.jwks = None;
        config.issuer.push_str("/other");
    });
    assert!(foreign.refreshed().await);
    assert!(foreign.keys().is_none(), "the metadata is for another issuer");
}

#[tokio::test]
async fn an_issuer_that_is_gone_is_not_asked_any_more() {
    let mock = Mock::start().await;
    mock.keys(&[Pair::ec().jwk("one")]);
    let issuer = mock.issuer(|config| config.refresh = Duration::from_millis(1));
    assert!(issuer.refreshed().await);
    let weak = Arc::downgrade(&issuer);
    drop(issuer);
    let gone = async {
        while weak.strong_count() > 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), gone).await.unwrap();
}
