//! Tests of `sign_in`.

use axum::http::header::{COOKIE, LOCATION, SET_COOKIE};
use lockgate_authn::Identity;

use super::*;

fn cookies(response: &Response) -> Vec<&str> {
    let all = response.headers().get_all(SET_COOKIE).iter();
    all.map(|cookie| cookie.to_str().unwrap()).collect()
}

#[test]
fn nobody_is_sent_to_another_place_after_signing_in() {
    for own in ["/console", "/console?x=1", "/console/servers?q=a%20b"] {
        assert_eq!(own_address(own), own);
    }
    for other in [
        "",
        "https://evil.example/console",
        "//evil.example/console",
        "/consolex",
        "/console\\evil",
        "/console/\r\nSet-Cookie: a=b",
        "/api/servers",
        "/console/sign-in/start",
        "/console/./sign-in/start",
        "/console/x/../sign-in/end",
        "/console/%2e/sign-in/start",
        "/console/%2E%2E/api",
        "/console/servers/..",
    ] {
        assert_eq!(own_address(other), "/console", "{other}");
    }
}

#[test]
fn a_key_is_made_into_a_cookie_that_is_not_the_key() {
    let sessions = Sessions::new().unwrap();
    for (is_secure, name) in [(true, "__Host-lockgate="), (false, "lockgate=")] {
        let sign_in = SignIn { key: "secret".into(), next: "/console/servers".into(), is_secure };
        assert_eq!(sign_in.credential().unwrap()[AUTHORIZATION], "Bearer secret");
        let ada = Principal::new(Identity::new(KEY, "ada"));
        let response = sign_in.begin(&sessions, ada, &HeaderMap::new()).unwrap();
        assert_eq!(response.status(), StatusCode::SEE_OTHER);
        assert_eq!(response.headers()[LOCATION], "/console/servers");
        let cookies = cookies(&response);
        let [cookie] = cookies[..] else { panic!("{cookies:?}") };
        assert!(cookie.starts_with(name) && !cookie.contains("secret"), "{cookie}");
        assert!(cookie.contains("; HttpOnly; SameSite=Lax; Max-Age=28800"), "{cookie}");
        assert!(cookie.contains("; Path=/;") && !cookie.contains("Domain"), "{cookie}");
        assert_eq!(cookie.ends_with("; Secure"), is_secure);
    }
}

#[test]
fn only_the_holder_of_a_key_gets_a_session() {
    let sessions = Sessions::new().unwrap();
    for issuer in ["https://issuer.example", "local", "anonymous"] {
        let sign_in = SignIn { key: "x".into(), next: "/console".into(), is_secure: true };
        let ada = Principal::new(Identity::new(issuer, "ada"));
        assert!(sign_in.begin(&sessions, ada, &HeaderMap::new()).is_err());
    }
}

#[test]
fn keys_are_taken_over_https_or_on_this_machine() {
    for (origin, expected) in [
        ("https://gate.example", Some(true)),
        ("http://localhost:3001", Some(false)),
        ("http://127.0.0.1:3001", Some(false)),
        ("http://[::1]:3001", Some(false)),
        ("http://gate.example", None),
        ("http://10.0.0.1", None),
        ("null", None),
    ] {
        let headers = HeaderMap::from_iter([(ORIGIN, HeaderValue::from_static(origin))]);
        assert_eq!(find_scheme(&headers), expected, "{origin}");
    }
}

fn provider(redirect: &str) -> ProviderSignIn {
    ProviderSignIn {
        issuer: "https://as.test".into(),
        client_id: "console".into(),
        client_secret: None,
        scopes: vec!["openid".into()],
        redirect: redirect.parse().unwrap(),
    }
}

fn over_https() -> ProviderSignIn {
    provider("https://console.test/console/sign-in/callback")
}

fn headers(cookies: &[(String, String)]) -> HeaderMap {
    let pairs: Vec<String> =
        cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
    HeaderMap::from_iter([(COOKIE, pairs.join("; ").parse().unwrap())])
}

fn begin(attempts: &Attempts, to: &ProviderSignIn, now: u64) -> Begun {
    attempts.begin(&HeaderMap::new(), "/console/keys?a=b&c=d", to, now).unwrap()
}

#[test]
fn an_answer_counts_once_in_its_browser_and_in_time() {
    let attempts = Attempts::new().unwrap();
    let to = over_https();
    let begun = begin(&attempts, &to, 100);
    assert!(begun.cookie.0.starts_with("__Host-lockgate-sign-in-"));
    let all = [&begun.attempt.state, &begun.attempt.nonce, &begun.attempt.verifier];
    for secret in all {
        assert!(secret.len() == 64 && !begun.cookie.1.contains(secret.as_str()));
    }
    let state = begun.attempt.state.clone();
    let own = headers(&[("other".into(), "x".into()), begun.cookie.clone()]);
    let find = |headers: &HeaderMap, state: &str, now| attempts.find(headers, state, &to, now);
    let another = begin(&attempts, &to, 100);
    assert!(find(&HeaderMap::new(), &state, 100).is_none(), "another browser");
    assert!(find(&headers(&[another.cookie]), &state, 100).is_none(), "another attempt");
    assert!(find(&own, &another.attempt.state, 100).is_none(), "another state");
    assert!(find(&own, "", 100).is_none());
    assert!(find(&own, &state[..8], 100).is_none(), "a state that begins alike");
    assert!(find(&own, &state, 100 + MAX_AGE).is_none(), "too late");
    assert!(find(&own, &state, 99).is_none(), "before it began");
    let found = find(&own, &state, 100 + MAX_AGE - 1).unwrap();
    assert_eq!(found.next, "/console/keys?a=b&c=d");
    assert_eq!(found.attempt.nonce, begun.attempt.nonce);
    assert_eq!(found.attempt.verifier, begun.attempt.verifier);
    assert!(find(&own, &state, 101).is_none(), "an answer that has come already");
}

#[test]
fn a_cookie_that_was_changed_counts_nothing() {
    let attempts = Attempts::new().unwrap();
    let to = over_https();
    let Begun { attempt, cookie: (name, value), .. } = begin(&attempts, &to, 100);
    for (from, into) in [("at=100", "at=400"), ("keys", "else"), ("id=", "id=0"), ("at=", "xt=")] {
        assert!(value.contains(from));
        let changed = headers(&[(name.clone(), value.replacen(from, into, 1))]);
        assert!(attempts.find(&changed, &attempt.state, &to, 100).is_none(), "{into}");
    }
    let own = headers(&[(name, value)]);
    let mut other = over_https();
    other.issuer = "https://other.test".into();
    assert!(attempts.find(&own, &attempt.state, &other, 100).is_none(), "another provider");
    let restarted = Attempts::new().unwrap();
    assert!(restarted.find(&own, &attempt.state, &to, 100).is_none(), "another process");
    assert!(attempts.find(&own, &attempt.state, &to, 100).is_some());
}

#[test]
fn a_browser_has_few_attempts_at_once() {
    let attempts = Attempts::new().unwrap();
    let to = over_https();
    let mut cookies = Vec::new();
    for now in 1..=MAX_OF_BROWSER as u64 {
        let begun = attempts.begin(&headers(&cookies), "/console", &to, now).unwrap();
        assert!(begun.given_up.is_empty(), "{now}");
        cookies.push(begun.cookie);
    }
    cookies.reverse();
    let begun = attempts.begin(&headers(&cookies), "/console", &to, 9).unwrap();
    let oldest = cookies.last().unwrap().0.clone();
    assert_eq!(begun.given_up, [oldest]);
}

#[test]
fn names_on_loopback_have_no_prefix_and_long_addresses_are_left() {
    let attempts = Attempts::new().unwrap();
    let to = provider("http://127.0.0.1:3001/console/sign-in/callback");
    let next = format!("/console?{}", "a".repeat(MAX_NEXT));
    let begun = attempts.begin(&HeaderMap::new(), &next, &to, 0).unwrap();
    assert!(begun.cookie.0.starts_with("lockgate-sign-in-"), "{:?}", begun.cookie);
    let found = attempts.find(&headers(&[begun.cookie]), &begun.attempt.state, &to, 0).unwrap();
    assert_eq!(found.next, "/console");
}
