//! Tests of `attempts`.

use axum::http::header::COOKIE;

use super::*;

fn provider(redirect: &str) -> SignIn {
    SignIn {
        issuer: "https://as.test".into(),
        client_id: "console".into(),
        client_secret: None,
        scopes: vec!["openid".into()],
        redirect: redirect.parse().unwrap(),
    }
}

fn over_https() -> SignIn {
    provider("https://console.test/console/sign-in/callback")
}

fn headers(cookies: &[(String, String)]) -> HeaderMap {
    let pairs: Vec<String> =
        cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
    HeaderMap::from_iter([(COOKIE, pairs.join("; ").parse().unwrap())])
}

fn begin(attempts: &Attempts, to: &SignIn, now: u64) -> Begun {
    attempts.begin_at(&HeaderMap::new(), "/console/keys?a=b&c=d", to, now).unwrap()
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
    let find = |headers: &HeaderMap, state: &str, now| attempts.find_at(headers, state, &to, now);
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
        assert!(attempts.find_at(&changed, &attempt.state, &to, 100).is_none(), "{into}");
    }
    let own = headers(&[(name, value)]);
    let mut other = over_https();
    other.issuer = "https://other.test".into();
    assert!(attempts.find_at(&own, &attempt.state, &other, 100).is_none(), "another provider");
    let restarted = Attempts::new().unwrap();
    assert!(restarted.find_at(&own, &attempt.state, &to, 100).is_none(), "another process");
    assert!(attempts.find_at(&own, &attempt.state, &to, 100).is_some());
}

#[test]
fn a_browser_has_few_attempts_at_once() {
    let attempts = Attempts::new().unwrap();
    let to = over_https();
    let mut cookies = Vec::new();
    for now in 1..=MAX_OF_BROWSER as u64 {
        let begun = attempts.begin_at(&headers(&cookies), "/console", &to, now).unwrap();
        assert!(begun.given_up.is_empty(), "{now}");
        cookies.push(begun.cookie);
    }
    cookies.reverse();
    let begun = attempts.begin_at(&headers(&cookies), "/console", &to, 9).unwrap();
    let oldest = cookies.last().unwrap().0.clone();
    assert_eq!(begun.given_up, [oldest]);
}

#[test]
fn names_on_loopback_have_no_prefix_and_long_addresses_are_left() {
    let attempts = Attempts::new().unwrap();
    let to = provider("http://127.0.0.1:3001/console/sign-in/callback");
    let next = format!("/console?{}", "a".repeat(MAX_NEXT));
    let begun = attempts.begin(&HeaderMap::new(), &next, &to).unwrap();
    assert!(begun.cookie.0.starts_with("lockgate-sign-in-"), "{:?}", begun.cookie);
    let found = attempts.find(&headers(&[begun.cookie]), &begun.attempt.state, &to).unwrap();
    assert_eq!(found.next, "/console");
}
