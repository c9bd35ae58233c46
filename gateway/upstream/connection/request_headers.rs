//! The headers of a request to a server over HTTP, beside those that every request carries.

use http::{HeaderName, HeaderValue};
use lockgate_protocol::method::Method;
use lockgate_protocol::{header, meta, modern};

use crate::http::Extra;

/// Adds `traceparent` and `tracestate` for a request in a trace.
pub(super) fn describe_trace(headers: &mut Extra, trace: Option<(&str, Option<&str>)>) {
    static TRACEPARENT: HeaderName = HeaderName::from_static(meta::TRACEPARENT);
    static TRACESTATE: HeaderName = HeaderName::from_static(meta::TRACESTATE);
    let Some((parent, state)) = trace else { return };
    if let Ok(parent) = HeaderValue::from_str(parent) {
        headers.push((TRACEPARENT.clone(), parent));
    }
    if let Some(Ok(state)) = state.map(HeaderValue::from_str) {
        headers.push((TRACESTATE.clone(), state));
    }
}

/// Adds the headers that describe a modern request. The version is sent with all requests of the
/// connection.
pub(super) fn describe_request(
    headers: &mut Extra,
    method: Method,
    target: Option<&str>,
    params: &[(&str, String)],
) {
    static METHOD: HeaderName = HeaderName::from_static(modern::METHOD_HEADER);
    static NAME: HeaderName = HeaderName::from_static(modern::NAME_HEADER);
    headers.push((METHOD.clone(), HeaderValue::from_static(method.as_str())));
    let name = target.map(header::encode_value);
    if let Some(Ok(value)) = name.map(|name| HeaderValue::from_str(&name)) {
        headers.push((NAME.clone(), value));
    }
    for (name, value) in params {
        if let (Ok(name), Ok(value)) =
            (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_str(value))
        {
            headers.push((name, value));
        }
    }
}
