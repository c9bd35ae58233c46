//! Errors for requests that were answered by a status instead of a JSON-RPC response.

use std::time::Duration;

use http::header::RETRY_AFTER;

use super::Posted;
use crate::failure::{UpstreamError, UpstreamErrorKind};

/// Returns `Retry-After`, if it is given in seconds; at most an hour.
fn retry_after(posted: &Posted) -> Option<Duration> {
    let seconds = posted.header(&RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds).min(Duration::from_secs(3600)))
}

/// Prefix of the message for a status without a JSON-RPC response.
pub const HTTP_STATUS: &str = "the server answered with HTTP status";

/// Returns the error for a status without a JSON-RPC response.
pub(crate) fn status_failure(posted: &Posted, has_session: bool) -> UpstreamError {
    let status = posted.status;
    let words = format!("{HTTP_STATUS} {}", status.as_u16());
    match status.as_u16() {
        401 | 403 | 407 => UpstreamError::new(UpstreamErrorKind::NeedsAuth, words),
        // Some servers send 400 where the specification requires 404. The gateway's own requests
        // are never malformed.
        400 | 404 if has_session => UpstreamError::new(
            UpstreamErrorKind::SessionLost,
            "the server no longer has the session",
        ),
        408 | 429 | 502..=504 => {
            let wait = retry_after(posted).unwrap_or(Duration::from_secs(1));
            UpstreamError::new(UpstreamErrorKind::Unavailable, words).retry_after(wait).after_send()
        }
        _ => UpstreamError::new(UpstreamErrorKind::Garbage, words).after_send(),
    }
}
