//! Tests of `body`.

use axum::http::header::CONTENT_TYPE;
use serde::Deserialize;

use super::*;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct GivenBody {
    #[serde(default)]
    list: Vec<u8>,
    #[serde(default)]
    inner: Option<Inner>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Inner {
    #[serde(rename = "a/b")]
    value: u8,
}

fn read(text: &str) -> Result<GivenBody, String> {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, "application/json; charset=utf-8".parse().unwrap());
    let read = parse(&headers, &Bytes::copy_from_slice(text.as_bytes()));
    read.map_err(|problem| format!("{problem:?}"))
}

#[test]
fn mistakes_are_told_with_their_place() {
    assert_eq!(read(r#"{"list":[1,2]}"#).unwrap().list, [1, 2]);
    assert!(read("").unwrap().inner.is_none());
    assert_eq!(read(r#"{"inner":{"a/b":3}}"#).unwrap().inner.unwrap().value, 3);
    for (text, pointer) in [
        (r#"{"list":[1,"x"]}"#, "/list/1"),
        (r#"{"inner":{"a/b":"x"}}"#, "/inner/a~1b"),
        (r#"{"inner":{"a/b":1,"c":2}}"#, "/inner/c"),
        (r#"{"other":1}"#, "/other"),
        (r#"{"list":[],"list":[1]}"#, ""),
        ("[]", ""),
        ("{", ""),
    ] {
        let said = read(text).unwrap_err();
        assert!(said.contains(&format!("pointer: Some({pointer:?})")), "{text}: {said}");
    }
}

#[test]
fn another_type_of_body_is_not_read() {
    let problem = parse::<GivenBody>(&HeaderMap::new(), &Bytes::from_static(b"{}")).unwrap_err();
    assert_eq!(problem.status(), StatusCode::UNSUPPORTED_MEDIA_TYPE);
}
