//! The headers of a request to a server over HTTP, beside those that every request carries.

use http::HeaderName;
use lockgate_egress::PostHead;
use lockgate_protocol::{header, meta, modern};

/// Adds `traceparent` and `tracestate` for a request in a trace.
pub(super) fn describe_trace(head: &mut PostHead, trace: Option<(&str, Option<&str>)>) {
    let Some((parent, state)) = trace else { return };
    head.add(meta::TRACEPARENT, parent.as_bytes());
    if let Some(state) = state {
        head.add(meta::TRACESTATE, state.as_bytes());
    }
}

/// Adds the headers that describe a modern request. The version is sent with all requests of the
/// connection.
pub(super) fn describe_request(
    head: &mut PostHead,
    method: &str,
    target: Option<&str>,
    params: &[(&str, String)],
) {
    head.add(modern::METHOD_HEADER, method.as_bytes());
    if let Some(name) = target {
        head.add(modern::NAME_HEADER, header::encode_value(name).as_bytes());
    }
    for (name, value) in params {
        if HeaderName::from_bytes(name.as_bytes()).is_ok() {
            head.add(name, value.as_bytes());
        }
    }
}
