//! Why the listener itself turns a request away: one status, code and set of words each, written in one place.

use std::borrow::Cow;

use bytes::Bytes;
use http::header::{ACCEPT_ENCODING, ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use http::{Response, StatusCode};
use lockgate_admission::budget::DROPPED;
use lockgate_protocol::{code, write};
use lockgate_telemetry::Rejection;

use crate::Receive;

const ALL_STREAMS: &str = "too many event streams are open (http.connections): try again";
const CALLERS_STREAMS: &str =
    "too many open streams of this caller (limits.streams_per_principal): close one, or try again later";
const MEMORY: &str = "too many bytes are in flight (limits.bytes_in_flight): try again";

/// A request that never reaches the proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// No `Host`, or several.
    NoHost,
    /// A `Host` that is none of ours: DNS rebinding, or a missing entry in the configuration.
    Host,
    Origin,
    /// Several `Authorization` headers.
    Authorization,
    Method {
        allow: &'static str,
    },
    ContentType,
    /// Several `Content-Type` headers.
    ContentTypes,
    /// A compressed body.
    Encoding,
    Accept,
    /// The body is longer than this many bytes.
    TooLarge {
        limit: usize,
    },
    /// The body did not come in time.
    Slow,
    /// The body broke off or its framing is wrong.
    Broken,
    /// Every place is taken and the queue is full.
    Busy,
    /// As many streams as connections are open.
    Streams,
    /// The caller has as many streams open as one may have.
    CallersStreams,
    /// Bodies in flight take all the memory that they may.
    Memory,
    /// There is no memory for the answer until clients have read theirs.
    Unread,
    /// No such HTTP+SSE session, or somebody else's.
    NoSession,
}

impl Refusal {
    /// Status, JSON-RPC code and words.
    pub(crate) fn wire(self) -> (StatusCode, i64, Cow<'static, str>) {
        let (status, code, words) = match self {
            Self::NoHost => (StatusCode::BAD_REQUEST, code::INVALID_REQUEST, "send exactly one Host header"),
            Self::Host => (
                StatusCode::MISDIRECTED_REQUEST,
                code::FORBIDDEN,
                "this Host is not served here: an operator can add it to the accepted hosts",
            ),
            Self::Origin => (
                StatusCode::FORBIDDEN,
                code::FORBIDDEN,
                "this Origin is not allowed: an operator can add it to the accepted origins",
            ),
            Self::Authorization => {
                (StatusCode::BAD_REQUEST, code::INVALID_REQUEST, "send at most one Authorization header")
            }
            Self::Method { .. } => {
                (StatusCode::METHOD_NOT_ALLOWED, code::INVALID_REQUEST, "this HTTP method is not served here")
            }
            Self::ContentType => (
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                code::INVALID_REQUEST,
                "Content-Type must be application/json, in UTF-8",
            ),
            Self::ContentTypes => {
                (StatusCode::BAD_REQUEST, code::INVALID_REQUEST, "send exactly one Content-Type header")
            }
            Self::Encoding => (
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                code::INVALID_REQUEST,
                "send the body as it is: a Content-Encoding is not taken",
            ),
            Self::Accept => (
                StatusCode::NOT_ACCEPTABLE,
                code::INVALID_REQUEST,
                "Accept must allow application/json or text/event-stream",
            ),
            Self::TooLarge { limit } => {
                let words = format!("the message is longer than {limit} bytes");
                return (StatusCode::PAYLOAD_TOO_LARGE, code::TOO_LARGE, words.into());
            }
            Self::Slow => (StatusCode::REQUEST_TIMEOUT, code::INVALID_REQUEST, "the body did not arrive in time"),
            Self::Broken => (StatusCode::BAD_REQUEST, code::INVALID_REQUEST, "the body is incomplete or badly framed"),
            Self::Busy => {
                (StatusCode::SERVICE_UNAVAILABLE, code::OVERLOADED, "too many requests are waiting: try again")
            }
            Self::Streams => (StatusCode::SERVICE_UNAVAILABLE, code::OVERLOADED, ALL_STREAMS),
            Self::CallersStreams => (StatusCode::SERVICE_UNAVAILABLE, code::OVERLOADED, CALLERS_STREAMS),
            Self::Memory => (StatusCode::SERVICE_UNAVAILABLE, code::OVERLOADED, MEMORY),
            // Without `Retry-After`: what was called may have had its effect.
            Self::Unread => (StatusCode::SERVICE_UNAVAILABLE, code::OVERLOADED, DROPPED),
            Self::NoSession => (StatusCode::NOT_FOUND, code::INVALID_REQUEST, "no such session"),
        };
        (status, code, words.into())
    }

    /// How it is counted.
    pub(crate) fn why(self) -> Rejection {
        match self {
            Self::NoHost | Self::Authorization | Self::ContentTypes | Self::Broken => Rejection::Malformed,
            Self::Host => Rejection::Host,
            Self::Origin => Rejection::Origin,
            Self::Method { .. } | Self::ContentType | Self::Encoding | Self::Accept => Rejection::Unsupported,
            Self::TooLarge { .. } => Rejection::BodyTooLarge,
            Self::Slow => Rejection::SlowClient,
            Self::Busy | Self::Streams | Self::CallersStreams | Self::Memory | Self::Unread => Rejection::Overloaded,
            Self::NoSession => Rejection::Session,
        }
    }

    /// Tells who keeps the record, whatever the transport is.
    pub(crate) fn record(self, receive: &impl Receive) {
        receive.turned_away(self.why(), self.wire().2);
    }

    /// The error object as JSON text; `id` is the request's, when it is known.
    pub(crate) fn text(self, id: Option<&[u8]>) -> Bytes {
        let (_, code, words) = self.wire();
        write::error(id, code, &words, None).into()
    }

    /// The whole response. Its body has no id, because the request was not read.
    pub(crate) fn response(self) -> Response<Bytes> {
        let mut response = Response::new(self.text(None));
        *response.status_mut() = self.wire().0;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        match self {
            Self::Method { allow } => {
                headers.insert(ALLOW, HeaderValue::from_static(allow));
            }
            // RFC 9110, 12.5.3: which encodings would be taken.
            Self::Encoding => {
                headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
            }
            Self::Busy | Self::Streams | Self::CallersStreams | Self::Memory => {
                headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
            }
            _ => {}
        }
        response
    }
}

#[cfg(test)]
mod tests;
