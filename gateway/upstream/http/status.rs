//! What it means when a request gets no answer, or a status that is none.

use std::time::Duration;

use http::HeaderMap;
use http::header::RETRY_AFTER;

use super::Posted;
use crate::failure::{Kind, UpstreamError};

/// `Retry-After` in seconds, if there is one.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds).min(Duration::from_secs(3600)))
}

/// Begins the words for a status without a JSON-RPC answer.
pub const HTTP_STATUS: &str = "the server answered with HTTP status";

/// What a status without a JSON-RPC answer means.
pub(crate) fn status_failure(posted: &Posted, has_session: bool) -> UpstreamError {
    let status = posted.status;
    let words = format!("{HTTP_STATUS} {}", status.as_u16());
    match status.as_u16() {
        401 | 403 | 407 => UpstreamError::new(Kind::NeedsAuth, words),
        // Some servers say 400 where the specification says 404; no request of ours is malformed.
        400 | 404 if has_session => {
            UpstreamError::new(Kind::SessionLost, "the server has forgotten the session")
        }
        408 | 429 | 502..=504 => {
            let wait = retry_after(&posted.headers).unwrap_or(Duration::from_secs(1));
            UpstreamError::new(Kind::Unavailable, words).retry_after(wait).after_send()
        }
        _ => UpstreamError::new(Kind::Garbage, words).after_send(),
    }
}
