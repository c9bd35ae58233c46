//! Tests of `compress`.

use std::io::Read;

use axum::http::Response;
use flate2::read::GzDecoder;

use super::*;

fn compressed(kind: &'static str, body: &str, accepts: bool) -> (Parts, Bytes) {
    let mut response = Response::new(());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    let (mut head, ()) = response.into_parts();
    let body = compress(&mut head, Bytes::from(body.to_owned()), accepts);
    (head, body)
}

#[test]
fn a_page_is_shorter_and_the_same() {
    let page = "<p>a page of words</p>".repeat(500);
    let (head, body) = compressed("text/html; charset=utf-8", &page, true);
    assert_eq!(head.headers[CONTENT_ENCODING], "gzip");
    assert!(body.len() * 10 < page.len(), "{}", body.len());
    let mut text = String::new();
    GzDecoder::new(&body[..]).read_to_string(&mut text).unwrap();
    assert_eq!(text, page);
}

#[test]
fn what_gains_nothing_or_is_not_accepted_stays() {
    let page = "x".repeat(5000);
    for (kind, body, accepts) in
        [("text/html", &*page, false), ("image/png", &page, true), ("text/html", "short", true)]
    {
        let (head, same) = compressed(kind, body, accepts);
        assert!(!head.headers.contains_key(CONTENT_ENCODING) && same == body, "{kind}");
    }
}

#[test]
fn gzip_is_used_only_where_it_is_accepted() {
    for (value, expected) in
        [("gzip, br", true), ("br;q=1, GZIP;q=0.5", true), ("gzip;q=0", false), ("br", false)]
    {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_str(value).unwrap());
        assert_eq!(accepts_gzip(&headers), expected, "{value}");
    }
}
