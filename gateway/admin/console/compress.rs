//! Gzip compression for pages and assets of the console. The form token is masked differently on
//! each page (`sessions`), so that the compressed length reveals nothing about it.

use std::io::Write;

use axum::body::Bytes;
use axum::http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, VARY};
use axum::http::response::Parts;
use axum::http::{HeaderMap, HeaderValue};
use flate2::Compression;
use flate2::write::GzEncoder;

/// Minimum size of compressed bodies.
const MIN_BYTES: usize = 1 << 10;
const TYPES: [&str; 4] = ["text/html", "text/css", "text/javascript", "image/svg+xml"];

/// Returns whether the browser accepts gzip.
pub(crate) fn accepts_gzip(headers: &HeaderMap) -> bool {
    let lines = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|line| line.to_str().ok());
    lines.flat_map(|line| line.split(',')).any(|one| {
        let (name, quality) = one.split_once(';').unwrap_or((one, ""));
        let is_refused = matches!(quality.trim(), "q=0" | "q=0.0" | "q=0.00" | "q=0.000");
        name.trim().eq_ignore_ascii_case("gzip") && !is_refused
    })
}

/// Compresses a body if that makes it shorter, and sets the headers accordingly.
pub(crate) fn compress(head: &mut Parts, body: Bytes, accepts: bool) -> Bytes {
    let media_type = head.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let is_text = media_type.is_some_and(|name| TYPES.iter().any(|one| name.starts_with(one)));
    if !is_text || head.headers.contains_key(CONTENT_ENCODING) {
        return body;
    }
    head.headers.append(VARY, HeaderValue::from_static("accept-encoding"));
    if !accepts || body.len() < MIN_BYTES {
        return body;
    }
    let mut encoder = GzEncoder::new(Vec::with_capacity(body.len() / 4), Compression::fast());
    if encoder.write_all(&body).is_err() {
        return body;
    }
    match encoder.finish() {
        Ok(shorter) if shorter.len() < body.len() => {
            head.headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            shorter.into()
        }
        _ => body,
    }
}

#[cfg(test)]
mod tests;
