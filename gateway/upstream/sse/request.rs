//! Requests to an HTTP+SSE server, and errors for those that were refused by a status.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode, Uri};
use lockgate_egress::Payload;

use crate::failure::{UpstreamError, UpstreamErrorKind};

pub(super) fn make_request(
    method: Method,
    uri: Uri,
    headers: &HeaderMap,
    text: Bytes,
) -> Request<Payload> {
    let mut request = Request::new(text.into());
    *request.method_mut() = method;
    *request.uri_mut() = uri;
    request.headers_mut().clone_from(headers);
    request
}

/// Returns the error for a status other than 2xx. A refused message was not processed; any other
/// may have been.
pub(super) fn read_status(status: StatusCode) -> UpstreamError {
    let words = format!("the server answered with HTTP status {}", status.as_u16());
    match status.as_u16() {
        401 | 403 | 407 => UpstreamError::new(UpstreamErrorKind::NeedsAuth, words),
        404 | 410 => UpstreamError::new(
            UpstreamErrorKind::SessionLost,
            format!("{words}: unknown session or path"),
        ),
        300..=399 => UpstreamError::new(
            UpstreamErrorKind::Garbage,
            format!("{words}, a redirect, which is not followed"),
        ),
        429 | 503 => UpstreamError::new(UpstreamErrorKind::Unavailable, words)
            .after_send()
            .retry_after(Duration::from_secs(1)),
        _ => UpstreamError::new(UpstreamErrorKind::Garbage, words).after_send(),
    }
}
