//! Errors that the listener reports itself, each with its status, code and message.

use std::borrow::Cow;
use std::time::Duration;

use bytes::Bytes;
use http::header::{
    ACCEPT_ENCODING, ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_TYPE, HeaderValue, RETRY_AFTER,
};
use http::{Response, StatusCode};
use lockgate_admission::budget::DROPPED;
use lockgate_admission::reader;
use lockgate_protocol::{code, write};
use lockgate_proxy::Exhausted;
use lockgate_proxy::quota::name_stream_limit;
use lockgate_telemetry::Rejection;

use crate::gateway_handler::Handler;

const ALL_STREAMS: &str = "too many event streams are open (http.connections): try again";
const SLOW: &str = "the body did not arrive in time (http.read_timeout)";
const PACE: &str = "the body arrives too slowly (http.body_rate)";
const CONNECTION_BODIES: &str = "too many slow bodies on this connection \
    (http.slow_bodies_per_connection): send them faster, or one after another";
const PRINCIPAL_BODIES: &str = "too many slow bodies of this caller \
    (http.slow_bodies_per_principal): send them faster, or one after another";
const CONNECTION_BYTES: &str = "too many bytes of incomplete bodies on this connection \
    (http.unfinished_bytes_per_connection): send them one after another";
const PRINCIPAL_BYTES: &str = "too many bytes of incomplete bodies of this caller \
    (http.unfinished_bytes_per_principal): send them one after another";
const MEMORY: &str = "too many bytes are in flight (limits.bytes_in_flight): try again";

/// The reason for a rejection before the request reaches the proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListenerError {
    /// A missing or repeated `Host` header.
    NoHost,
    /// A `Host` that is not accepted: DNS rebinding, or a missing entry in the configuration.
    Host,
    Origin,
    /// A repeated `Authorization` header.
    Authorization,
    Method {
        allow: &'static str,
    },
    ContentType,
    /// A repeated `Content-Type` header.
    ContentTypes,
    /// A compressed body.
    Encoding,
    Accept,
    /// The body exceeds the limit in bytes.
    TooLarge {
        limit: usize,
    },
    /// The body did not arrive in time.
    Slow,
    /// The body arrives below the minimum rate.
    Pace,
    /// The connection has too many slow bodies.
    ConnectionBodies {
        /// Time after which at least one body has ended.
        retry_after: Duration,
    },
    /// The caller has too many slow bodies.
    PrincipalBodies {
        /// Time after which at least one body has ended.
        retry_after: Duration,
    },
    /// The connection has too many bytes of incomplete bodies.
    ConnectionBytes,
    /// The caller has too many bytes of incomplete bodies.
    PrincipalBytes,
    /// Ambiguous or unsupported body framing.
    Framing,
    /// An `Expect` header other than `100-continue`.
    Expectation,
    /// The body is incomplete or badly framed.
    Broken,
    /// Too many requests are in progress, or no session id could be generated.
    Busy,
    /// The listener-wide limit on HTTP+SSE streams is reached.
    Streams,
    /// The caller's limit on event streams is reached.
    CallersStreams(Exhausted),
    /// The limit on bytes in flight is reached.
    Memory,
    /// The memory for the response is occupied by responses that clients have not read.
    Unread,
    /// The HTTP+SSE session does not exist or belongs to another principal.
    NoSession,
}

impl ListenerError {
    /// Returns the JSON-RPC code.
    fn code(self) -> i64 {
        match self {
            Self::Host | Self::Origin => code::FORBIDDEN,
            Self::TooLarge { .. } => code::TOO_LARGE,
            _ if self.status() == StatusCode::SERVICE_UNAVAILABLE => code::OVERLOADED,
            _ => code::INVALID_REQUEST,
        }
    }

    pub(crate) fn status(self) -> StatusCode {
        match self {
            Self::NoHost
            | Self::Authorization
            | Self::ContentTypes
            | Self::Framing
            | Self::Broken => StatusCode::BAD_REQUEST,
            Self::Host => StatusCode::MISDIRECTED_REQUEST,
            Self::Origin => StatusCode::FORBIDDEN,
            Self::Method { .. } => StatusCode::METHOD_NOT_ALLOWED,
            Self::ContentType | Self::Encoding => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::Accept => StatusCode::NOT_ACCEPTABLE,
            Self::Expectation => StatusCode::EXPECTATION_FAILED,
            Self::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Slow | Self::Pace => StatusCode::REQUEST_TIMEOUT,
            Self::NoSession => StatusCode::NOT_FOUND,
            _ => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    fn words(self) -> Cow<'static, str> {
        let words = match self {
            Self::NoHost => "send exactly one Host header",
            Self::Host => {
                "this Host is not served here: an operator can add it to the accepted hosts"
            }
            Self::Origin => {
                "this Origin is not allowed: an operator can add it to the accepted origins"
            }
            Self::Authorization => "send at most one Authorization header",
            Self::Method { .. } => "this HTTP method is not served here",
            Self::ContentType => "Content-Type must be application/json, in UTF-8",
            Self::ContentTypes => "send exactly one Content-Type header",
            Self::Encoding => "Content-Encoding is not supported: send the body unencoded",
            Self::Accept => "Accept must allow application/json or text/event-stream",
            Self::Framing => "Transfer-Encoding must be `chunked`, once",
            Self::Expectation => "no expectation other than 100-continue is supported",
            Self::TooLarge { limit } => {
                return format!("the message is longer than {limit} bytes").into();
            }
            Self::Slow => SLOW,
            Self::Pace => PACE,
            Self::ConnectionBodies { .. } => CONNECTION_BODIES,
            Self::PrincipalBodies { .. } => PRINCIPAL_BODIES,
            Self::ConnectionBytes => CONNECTION_BYTES,
            Self::PrincipalBytes => PRINCIPAL_BYTES,
            Self::Broken => "the body is incomplete or badly framed",
            Self::Busy => "too many requests are waiting: try again",
            Self::Streams => ALL_STREAMS,
            Self::CallersStreams(limit) => name_stream_limit(limit).0,
            Self::Memory => MEMORY,
            Self::Unread => DROPPED,
            Self::NoSession => "no such session",
        };
        words.into()
    }

    /// Returns the category under which the rejection is counted.
    fn why(self) -> Rejection {
        match self {
            Self::Host => Rejection::Host,
            Self::Origin => Rejection::Origin,
            Self::TooLarge { .. } => Rejection::BodyTooLarge,
            Self::Slow
            | Self::Pace
            | Self::ConnectionBodies { .. }
            | Self::PrincipalBodies { .. } => Rejection::SlowClient,
            Self::NoSession => Rejection::Session,
            _ => match self.status() {
                StatusCode::BAD_REQUEST => Rejection::Malformed,
                StatusCode::SERVICE_UNAVAILABLE => Rejection::Overloaded,
                _ => Rejection::Unsupported,
            },
        }
    }

    /// Returns the `data.reason` value, for errors that clients may need to distinguish.
    fn reason(self) -> Option<&'static str> {
        Some(match self {
            Self::Origin => "origin",
            Self::Slow => "body_timeout",
            Self::Pace => "body_rate",
            Self::ConnectionBodies { .. } => "slow_bodies_per_connection",
            Self::PrincipalBodies { .. } => "slow_bodies_per_principal",
            Self::ConnectionBytes => "unfinished_bytes_per_connection",
            Self::PrincipalBytes => "unfinished_bytes_per_principal",
            Self::Busy => "overloaded",
            Self::Streams => "streams",
            Self::CallersStreams(limit) => name_stream_limit(limit).1,
            Self::Memory => "bytes_in_flight",
            Self::Unread => "answer_dropped",
            _ => return None,
        })
    }

    /// Returns the time after which the same request may succeed, if predictable. Limits on streams
    /// and bytes depend on the client alone, and a call with a dropped response must not be
    /// retried.
    fn retry_after(self) -> Option<Duration> {
        match self {
            Self::ConnectionBodies { retry_after } | Self::PrincipalBodies { retry_after } => {
                Some(retry_after)
            }
            // By then the reader with the most memory has been evicted.
            Self::Memory => Some(reader::EVICTION_TIMEOUT),
            _ => None,
        }
    }

    pub(crate) fn record(self, handler: &Handler) {
        handler.record_rejection(self.why(), &self.words());
    }

    /// Records the rejection, and returns the complete response.
    pub(crate) fn answer(self, handler: &Handler) -> Response<Bytes> {
        self.record(handler);
        self.response()
    }

    /// Returns the error response as JSON text. `id` is the request's id, if present.
    pub(crate) fn text(self, id: Option<&[u8]>) -> Bytes {
        let data = self.reason().map(|reason| serde_json::json!({ "reason": reason }));
        write::error(id, self.code(), &self.words(), data.as_ref()).into()
    }

    /// Returns the complete response. Its body has no id, because the request was not read.
    fn response(self) -> Response<Bytes> {
        let mut response = Response::new(self.text(None));
        *response.status_mut() = self.status();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        match self {
            Self::Method { allow } => {
                headers.insert(ALLOW, HeaderValue::from_static(allow));
            }
            // RFC 9110, 12.5.3: names the accepted encodings.
            Self::Encoding => {
                headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
            }
            // With ambiguous framing, the start of the next request is undefined.
            Self::Framing => {
                headers.insert(CONNECTION, HeaderValue::from_static("close"));
            }
            _ => {}
        }
        if let Some(time) = self.retry_after() {
            headers.insert(RETRY_AFTER, write_retry_after(time));
        }
        response
    }
}

/// Formats a `Retry-After` value in whole seconds, at least one.
pub(crate) fn write_retry_after(time: Duration) -> HeaderValue {
    let seconds = time.as_secs() + u64::from(time.subsec_nanos() > 0);
    seconds.max(1).into()
}

#[cfg(test)]
mod tests;
