//! Tests of `sign_in`.

use axum::http::header::{LOCATION, SET_COOKIE};
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
