//! The trace context of a request (W3C Trace Context). `_meta` applies to the message and takes
//! precedence; the headers of the exchange are the fallback if `_meta` has no valid context.
//! Invalid values are ignored.

use http::{HeaderMap, HeaderName};
use lockgate_protocol::jsonrpc::Request;
use lockgate_protocol::key::Key;
use lockgate_protocol::meta;
use lockgate_telemetry::TraceContext;

use crate::transport::Exchange;

static TRACEPARENT: HeaderName = HeaderName::from_static(meta::TRACEPARENT);
static TRACESTATE: HeaderName = HeaderName::from_static(meta::TRACESTATE);

/// Returns the context in a message, or else in the headers of its exchange.
pub(crate) fn of_request(exchange: &Exchange, request: &Request) -> Option<TraceContext> {
    of_message(request).or_else(|| of_exchange(&exchange.headers))
}

pub(crate) fn of_exchange(headers: &HeaderMap) -> Option<TraceContext> {
    let mut parents = headers.get_all(&TRACEPARENT).iter();
    let parent = parents.next()?.to_str().ok()?;
    if parents.next().is_some() {
        return None;
    }
    TraceContext::parse(parent.trim(), read_state(headers).as_deref())
}

/// Repeated `tracestate` headers form a single list.
fn read_state(headers: &HeaderMap) -> Option<String> {
    let mut states = Vec::new();
    for state in headers.get_all(&TRACESTATE) {
        states.push(state.to_str().ok()?);
    }
    if states.is_empty() { None } else { Some(states.join(",")) }
}

pub(crate) fn of_message(request: &Request) -> Option<TraceContext> {
    let parent = request.meta_str(Key::Traceparent)?;
    TraceContext::parse(&parent, request.meta_str(Key::Tracestate).as_deref())
}

#[cfg(test)]
mod tests;
