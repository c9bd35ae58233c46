//! Where a request stands in its client's trace (W3C Trace Context). `_meta` says it of the
//! message; the headers of the exchange that carries it stand in where `_meta` says nothing valid.
//! What does not hold to the rules is left out.

use http::{HeaderMap, HeaderName};
use lockgate_protocol::jsonrpc::Request;
use lockgate_protocol::meta;
use lockgate_telemetry::TraceContext;

use crate::transport::Exchange;

static TRACEPARENT: HeaderName = HeaderName::from_static(meta::TRACEPARENT);
static TRACESTATE: HeaderName = HeaderName::from_static(meta::TRACESTATE);

/// What a message says, else the headers of its exchange.
pub(crate) fn of_request(exchange: &Exchange, request: &Request) -> Option<TraceContext> {
    of_message(request).or_else(|| of_exchange(&exchange.headers))
}

/// What the headers of an exchange say.
pub(crate) fn of_exchange(headers: &HeaderMap) -> Option<TraceContext> {
    let mut parents = headers.get_all(&TRACEPARENT).iter();
    let parent = parents.next()?.to_str().ok()?;
    if parents.next().is_some() {
        return None;
    }
    TraceContext::parse(parent.trim(), read_state(headers).as_deref())
}

/// Several lines of it are one list.
fn read_state(headers: &HeaderMap) -> Option<String> {
    let mut states = Vec::new();
    for state in headers.get_all(&TRACESTATE) {
        states.push(state.to_str().ok()?);
    }
    if states.is_empty() { None } else { Some(states.join(",")) }
}

/// What a message says of itself.
pub(crate) fn of_message(request: &Request) -> Option<TraceContext> {
    let parent = request.meta_str(meta::TRACEPARENT)?;
    TraceContext::parse(&parent, request.meta_str(meta::TRACESTATE).as_deref())
}

#[cfg(test)]
mod tests;
