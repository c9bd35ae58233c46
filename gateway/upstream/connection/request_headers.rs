//! The headers of one request to a server over HTTP, beside those that every request carries.

use http::{HeaderName, HeaderValue};
use lockgate_protocol::{header, meta, modern};

use super::Ask;
use crate::http::Extra;

/// The headers of one request: where it stands in a trace, and in the modern era what it is. The
/// version goes with all requests of the connection.
pub(super) fn write(ask: &Ask<'_>, modern: bool) -> Extra {
    static METHOD: HeaderName = HeaderName::from_static(modern::METHOD_HEADER);
    static NAME: HeaderName = HeaderName::from_static(modern::NAME_HEADER);
    static TRACEPARENT: HeaderName = HeaderName::from_static(meta::TRACEPARENT);
    static TRACESTATE: HeaderName = HeaderName::from_static(meta::TRACESTATE);
    let mut headers = Extra::new();
    if let Some((parent, state)) = ask.outbound.trace {
        if let Ok(parent) = HeaderValue::from_str(parent) {
            headers.push((TRACEPARENT.clone(), parent));
        }
        if let Some(Ok(state)) = state.map(HeaderValue::from_str) {
            headers.push((TRACESTATE.clone(), state));
        }
    }
    if !modern {
        return headers;
    }
    headers.push((METHOD.clone(), HeaderValue::from_static(ask.method.as_str())));
    if let Some(value) =
        ask.target.and_then(|t| HeaderValue::from_str(&header::encode_value(t)).ok())
    {
        headers.push((NAME.clone(), value));
    }
    for (name, value) in ask.params {
        if let (Ok(name), Ok(value)) =
            (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_str(value))
        {
            headers.push((name, value));
        }
    }
    headers
}
