//! Tests of `assets`.

use std::io::Read;

use aws_lc_rs::digest::{SHA256, digest};
use axum::http::Response;
use flate2::read::GzDecoder;
use lockgate_text::hex;

use super::*;

const README: &str = include_str!("README.md");
/// Limit for scripts and stylesheet before compression: the transfer size, times the least ratio of
/// gzip for such files.
const MAX_BYTES: usize = 160 * 1024;

#[test]
fn what_others_have_made_is_as_it_was_published() {
    let mut pinned = 0;
    for asset in SCRIPTS.iter().filter(|asset| asset.name.ends_with(".min.js")) {
        let row = README.lines().find(|line| line.starts_with(&format!("| `{}`", asset.name)));
        let hash = hex::encode(digest(&SHA256, asset.bytes).as_ref());
        assert!(row.unwrap().contains(&hash), "{}: {hash}", asset.name);
        pinned += 1;
    }
    assert_eq!(pinned, 3);
}

#[test]
fn all_of_it_stays_small() {
    let scripts: usize = SCRIPTS.iter().map(|asset| asset.bytes.len()).sum();
    assert!(scripts + STYLE.bytes.len() < MAX_BYTES, "{scripts}");
}

#[tokio::test]
async fn an_asset_is_there_under_its_own_digest_alone() {
    let known = show_asset(Path((STYLE.digest(), STYLE.name.to_owned()))).await;
    assert_eq!(known.status(), StatusCode::OK);
    assert_eq!(known.headers()[CONTENT_TYPE], STYLE.media_type);
    for (digest, name) in [(ICON.digest(), STYLE.name), (STYLE.digest(), "README.md")] {
        let other = show_asset(Path((digest, name.to_owned()))).await;
        assert_eq!(other.status(), StatusCode::NOT_FOUND, "{name}");
    }
}

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
