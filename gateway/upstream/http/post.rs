//! A POST to a server and its result, and the error for a status instead of a JSON-RPC response.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use bytes::Bytes;
use http::header::RETRY_AFTER;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use lockgate_admission::spawn;
use lockgate_egress::PostRequest;
use lockgate_protocol::jsonrpc::Response;
use lockgate_protocol::modern::SESSION_HEADER;

use super::HttpTransport;
use crate::call::{ClientChannel, IdentityAssertion, ResponseSink};
use crate::failure::{UpstreamError, UpstreamErrorKind};

pub(crate) struct Post<'a> {
    /// The id of the request in `message`; `None` for notifications and responses.
    pub(crate) id: Option<u64>,
    pub(crate) message: PostRequest,
    pub(crate) channel: Option<&'a Arc<dyn ClientChannel>>,
    /// Receives a large answer in a plain body.
    pub(crate) sink: Option<&'a dyn ResponseSink>,
    /// The requester's identity; `None` for the connection's owner.
    pub(crate) assertion: Option<&'a dyn IdentityAssertion>,
    /// Whether the headers of a response with status 200 are needed.
    pub(crate) keeps_headers: bool,
}

impl Post<'_> {
    /// Creates the POST of a message without a response.
    pub(crate) fn note(message: PostRequest) -> Self {
        Self { id: None, message, channel: None, sink: None, assertion: None, keeps_headers: false }
    }
}

pub(crate) struct Posted {
    pub(crate) status: StatusCode,
    /// `None` for status 200, unless requested.
    pub(crate) headers: Option<Box<HeaderMap>>,
    /// The response with the request's id, or an error without an id.
    pub(crate) response: Option<Response>,
}

impl Posted {
    pub(crate) fn header(&self, name: &HeaderName) -> Option<&HeaderValue> {
        self.headers.as_ref()?.get(name)
    }
}

impl HttpTransport {
    /// Posts a notification in the background, on behalf of the caller, or of the connection's
    /// owner.
    pub(crate) fn notify(self: &Arc<Self>, text: Bytes, assertion: Option<&dyn IdentityAssertion>) {
        let transport = Arc::clone(self);
        let message = self.message(text, assertion);
        spawn(async move { transport.deliver(message).await });
    }

    /// Posts a message without a response; a failure is only logged.
    pub(crate) async fn deliver(self: &Arc<Self>, message: PostRequest) {
        if let Err(failure) = self.post(Post::note(message)).await {
            tracing::debug!(%failure, "a message did not reach the server");
        }
    }

    pub(crate) fn session(&self) -> Option<String> {
        let base = self.base.load();
        let session = base.headers.get(SESSION_HEADER)?;
        session.to_str().ok().map(str::to_owned)
    }

    /// Returns the HTTP version of the last response, unless it is 1.0.
    pub(crate) fn version(&self) -> Option<&'static str> {
        self.is_http11.load(Relaxed).then_some("1.1")
    }
}

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
        401 | 403 | 407 => UpstreamErrorKind::NeedsAuth.error(words),
        // Some servers send 400 where the specification requires 404. The gateway's own requests
        // are never malformed.
        400 | 404 if has_session => {
            UpstreamErrorKind::SessionLost.error("the server no longer has the session")
        }
        408 | 429 | 502..=504 => {
            let wait = retry_after(posted).unwrap_or(Duration::from_secs(1));
            UpstreamErrorKind::Unavailable.error(words).retry_after(wait).after_send()
        }
        _ => UpstreamError::garbage(words),
    }
}
