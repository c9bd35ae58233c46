//! Tests of `conditions`.

use super::*;

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
