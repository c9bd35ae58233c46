//! Tests of `request_headers`.

#![allow(clippy::unwrap_used)]

use super::*;

#[test]
fn accept_is_read_leniently() {
    let accepted = [
        "*/*",
        "application/json",
        "text/event-stream",
        "text/html, application/*;q=0.1",
        "APPLICATION/JSON",
    ];
    let refused = [
        "text/html",
        "application/json;q=0",
        "application/json; q=0.0, text/event-stream;q=0",
        "",
        "json",
    ];
    let ask = |accept: &'static str| {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static(accept));
        check_post(&headers)
    };
    for accept in accepted {
        assert_eq!(ask(accept), Ok(()), "{accept}");
    }
    for accept in refused {
        assert_eq!(ask(accept), Err(ListenerError::Accept), "{accept}");
    }
}

#[test]
fn only_a_bearer_header_is_a_credential_and_it_does_not_stay_in_the_headers() {
    let table = [
        ("Bearer abc", Some("abc")),
        ("bEARER  abc ", Some("abc")),
        ("Basic abc", None),
        ("Bearers abc", None),
        ("Bearer-x abc", None),
        ("abc", None),
        // Unreadable, but present: never treated as absent.
        ("Bearer", Some("")),
        ("bearer ", Some("")),
        ("Bearer\tabc", Some("abc")),
        ("Bearer:abc", Some(":abc")),
        ("Bearer a\u{e9}", Some("a\u{e9}")),
    ];
    let latin = (HeaderValue::from_bytes(b"Bearer a\xe9").unwrap(), Some("a\u{fffd}"));
    let table =
        table.map(|(sent, expected)| (HeaderValue::from_bytes(sent.as_bytes()).unwrap(), expected));
    for (sent, expected) in table.into_iter().chain([latin]) {
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, sent.clone());
        assert_eq!(bearer(&mut headers).unwrap().as_deref(), expected, "{sent:?}");
        assert!(headers.is_empty());
    }
    let mut headers = HeaderMap::new();
    headers.append(AUTHORIZATION, HeaderValue::from_static("Bearer a"));
    headers.append(AUTHORIZATION, HeaderValue::from_static("Bearer b"));
    assert_eq!(bearer(&mut headers), Err(ListenerError::Authorization));
}
