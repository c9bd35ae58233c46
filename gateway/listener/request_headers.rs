//! Checks of request headers: body framing, content type, accepted types, and the bearer token,
//! which is removed. Independent of paths and MCP.

use http::HeaderMap;
use http::header::{
    ACCEPT, AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, EXPECT, HeaderName, HeaderValue,
    TRANSFER_ENCODING,
};
use lockgate_protocol::header::is_token_char;

use crate::error::ListenerError;

/// Returns the value of a header, or `repeated` if it has several. The two counts differ only if
/// some header is repeated, which is rare.
pub(crate) fn single(
    headers: &HeaderMap,
    name: HeaderName,
    repeated: ListenerError,
) -> Result<Option<&HeaderValue>, ListenerError> {
    if headers.len() != headers.keys_len() && headers.get_all(&name).iter().nth(1).is_some() {
        return Err(repeated);
    }
    Ok(headers.get(name))
}

/// Checks that the body framing is unambiguous (RFC 9112, 6.1) and that no unsupported expectation
/// is present (RFC 9110, 10.1.1). hyper ignores `Content-Length` beside `Transfer-Encoding`, and
/// closes the connection after the response (RFC 9112, 6.3).
pub(crate) fn check_framing(headers: &HeaderMap) -> Result<(), ListenerError> {
    let expectation = single(headers, EXPECT, ListenerError::Expectation)?;
    if expectation.is_some_and(|value| !value.as_bytes().eq_ignore_ascii_case(b"100-continue")) {
        return Err(ListenerError::Expectation);
    }
    let coding = single(headers, TRANSFER_ENCODING, ListenerError::Framing)?;
    if coding.is_some_and(|value| !value.as_bytes().eq_ignore_ascii_case(b"chunked")) {
        return Err(ListenerError::Framing);
    }
    Ok(())
}

pub(crate) fn check_post(headers: &HeaderMap) -> Result<(), ListenerError> {
    let content_type = single(headers, CONTENT_TYPE, ListenerError::ContentTypes)?;
    let content_type = content_type.ok_or(ListenerError::ContentType)?;
    if !is_json(content_type.as_bytes()) {
        return Err(ListenerError::ContentType);
    }
    for encoding in headers.get_all(CONTENT_ENCODING) {
        if !encoding.as_bytes().trim_ascii().eq_ignore_ascii_case(b"identity") {
            return Err(ListenerError::Encoding);
        }
    }
    if !accepts(headers, &["application/json", "text/event-stream", "application/*", "text/*"]) {
        return Err(ListenerError::Accept);
    }
    Ok(())
}

/// Returns whether the type is `application/json`, with no charset other than UTF-8.
fn is_json(value: &[u8]) -> bool {
    let mut parts = value.split(|&b| b == b';').map(<[u8]>::trim_ascii);
    let essence = parts.next().unwrap_or(b"");
    essence.eq_ignore_ascii_case(b"application/json") && parts.all(allows_utf8)
}

/// Returns whether a media type parameter names no other charset.
fn allows_utf8(parameter: &[u8]) -> bool {
    match parameter.split_at_checked(b"charset=".len()) {
        Some((name, set)) if name.eq_ignore_ascii_case(b"charset=") => {
            let set = match set {
                [b'"', quoted @ .., b'"'] => quoted,
                set => set,
            };
            set.eq_ignore_ascii_case(b"utf-8") || set.eq_ignore_ascii_case(b"utf8")
        }
        _ => true,
    }
}

/// Returns whether `Accept` is absent or allows one of `types`. `*/*` always matches, a weight of
/// zero never.
pub(crate) fn accepts(headers: &HeaderMap, types: &[&str]) -> bool {
    let Some(first) = headers.get(ACCEPT) else { return true };
    if first == "application/json, text/event-stream" {
        return true; // sent by nearly every client
    }
    for value in headers.get_all(ACCEPT) {
        let Ok(value) = value.to_str() else { continue };
        if value.split(',').any(|range| range_allows(range, types)) {
            return true;
        }
    }
    false
}

fn range_allows(range: &str, types: &[&str]) -> bool {
    let mut parts = range.split(';').map(str::trim);
    let essence = parts.next().unwrap_or("");
    let known = essence == "*/*" || types.iter().any(|name| name.eq_ignore_ascii_case(essence));
    known && !parts.any(is_zero_weight)
}

fn is_zero_weight(parameter: &str) -> bool {
    let Some(weight) = parameter.strip_prefix(['q', 'Q']) else { return false };
    let Some(weight) = weight.strip_prefix('=') else { return false };
    matches!(weight.parse::<f32>(), Ok(weight) if weight <= 0.0)
}

/// Removes the bearer token from the headers, so that later layers cannot forward it. The query is
/// never read.
pub(crate) fn bearer(headers: &mut HeaderMap) -> Result<Option<String>, ListenerError> {
    single(headers, AUTHORIZATION, ListenerError::Authorization)?;
    Ok(headers.remove(AUTHORIZATION).and_then(|value| token(&value)))
}

/// Returns the token after the scheme `Bearer`. An empty or non-UTF-8 token is an invalid
/// credential, not an absent credential.
fn token(value: &HeaderValue) -> Option<String> {
    let (scheme, token) = value.as_bytes().split_at_checked(b"bearer".len())?;
    // RFC 9110, 11.1: the scheme is a token, so `Bearer` may be only its prefix.
    let whole = !matches!(token.first(), Some(&byte) if is_token_char(byte));
    if whole && scheme.eq_ignore_ascii_case(b"bearer") {
        Some(String::from_utf8_lossy(token.trim_ascii()).into_owned())
    } else {
        None
    }
}

#[cfg(test)]
mod tests;
