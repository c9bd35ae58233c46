//! Request headers as text.

use axum::http::HeaderMap;
use axum::http::header::{AsHeaderName, CONTENT_TYPE};

/// Returns the value of a header; `None` if it is missing or not text.
pub(crate) fn read_header(headers: &HeaderMap, name: impl AsHeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok()
}

/// Returns the media type of a body without its parameters.
pub(crate) fn read_media_type(headers: &HeaderMap) -> Option<&str> {
    let given = read_header(headers, CONTENT_TYPE)?;
    match given.split_once(';') {
        Some((essence, _)) => Some(essence.trim()),
        None => Some(given.trim()),
    }
}

pub(crate) fn is_json(headers: &HeaderMap) -> bool {
    let essence = read_media_type(headers);
    matches!(essence, Some(essence) if essence.eq_ignore_ascii_case("application/json"))
}
