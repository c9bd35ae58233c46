//! Names and helpers for the headers that the request path uses.

use http::{HeaderMap, HeaderName, HeaderValue};
use lockgate_protocol::modern::{METHOD_HEADER, NAME_HEADER, SESSION_HEADER, VERSION_HEADER};

pub(crate) static SESSION: HeaderName = HeaderName::from_static(SESSION_HEADER);
pub(crate) static VERSION: HeaderName = HeaderName::from_static(VERSION_HEADER);
pub(crate) static METHOD: HeaderName = HeaderName::from_static(METHOD_HEADER);
pub(crate) static NAME: HeaderName = HeaderName::from_static(NAME_HEADER);

pub(crate) fn header<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    Some(headers.get(name)?.to_str().ok()?.trim())
}

/// Returns the headers that carry a legacy session id.
pub(crate) fn session_header(id: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    if let Ok(value) = HeaderValue::from_str(id) {
        headers.insert(SESSION.clone(), value);
    }
    headers
}
