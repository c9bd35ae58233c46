//! Tests of `change`.

use serde_json::json;

use super::*;

#[test]
fn what_is_recorded_of_an_address_is_without_what_may_be_secret() {
    let secret = json!({"url": "https://a.example/mcp?key=canary", "name": "a?b"});
    let recorded = describe(&json!({"agent": "agt_1", "integration": secret}));
    assert!(!recorded.contains("canary"), "{recorded}");
    assert!(recorded.contains("https://a.example/mcp?…") && recorded.contains("a?b"));
}

#[test]
fn parts_of_a_path_that_are_no_words_are_left_out() {
    for (url, recorded) in [
        ("https://a.example:8443/", "https://a.example:8443/"),
        ("https://a.example/team-42/v1/mcp", "https://a.example/team-42/v1/mcp"),
        ("https://a.example/s/k9f83hd02j/mcp", "https://a.example/s/…/mcp"),
        ("https://a.example/AbCdEfGhIj?x", "https://a.example/…?…"),
        ("https://a.example/%63anary", "https://a.example/…"),
        ("https://u:canary@a.example/mcp#canary", "https://a.example/mcp"),
        ("canary", "…"),
    ] {
        assert_eq!(shorten_address(url), recorded, "{url}");
    }
}

fn version(values: &[&'static str]) -> Result<Option<i64>, StatusCode> {
    let mut headers = HeaderMap::new();
    for value in values {
        headers.append(IF_MATCH, value.parse().unwrap());
    }
    read_version(&headers).map_err(|problem| problem.status())
}

#[test]
fn a_version_is_read_from_an_entity_tag_or_refused() {
    assert_eq!(version(&[]), Ok(None));
    assert_eq!(version(&["*"]), Ok(None));
    assert_eq!(version(&["\"7\""]), Ok(Some(7)));
    for wrong in ["7", "\"x\"", "\"1\", \"2\"", "W/\"1\"", ""] {
        assert_eq!(version(&[wrong]), Err(StatusCode::BAD_REQUEST), "{wrong}");
    }
    assert_eq!(version(&["\"1\"", "\"2\""]), Err(StatusCode::BAD_REQUEST));
}
