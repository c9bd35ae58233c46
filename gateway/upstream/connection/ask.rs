//! A request to a server before it is written in the server's era, and its headers over HTTP.

use std::sync::Arc;
use std::time::Duration;

use http::HeaderName;
use lockgate_egress::PostHead;
use lockgate_protocol::key::Key;
use lockgate_protocol::method::Method;
use lockgate_protocol::outbound::Outbound;
use lockgate_protocol::{header, meta, modern};
use lockgate_telemetry::ToolMetrics;

use crate::call::{ClientChannel, IdentityAssertion, ResponseSink};

/// Longest silent processing of one of the gateway's own requests.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);

/// A request of the gateway or of a client, ready to be written.
pub(crate) struct Ask<'a> {
    /// A preassigned id, from `Connection::expect_acknowledgement` or `Connection::mint_id`.
    pub(crate) id: Option<u64>,
    pub(crate) method: Method,
    /// The value of `Mcp-Name`.
    pub(crate) target: Option<&'a str>,
    pub(crate) outbound: Outbound<'a>,
    /// JSON text of the client's capabilities, for modern servers.
    pub(crate) capabilities: &'a [u8],
    pub(crate) params: &'a [(&'a str, String)],
    pub(crate) channel: Option<Arc<dyn ClientChannel>>,
    pub(crate) sink: Option<Arc<dyn ResponseSink>>,
    /// The requester's identity; `None` for the connection's owner.
    pub(crate) assertion: Option<Arc<dyn IdentityAssertion>>,
    pub(crate) tool: Option<Arc<ToolMetrics>>,
    /// Longest silent processing; `None` for requests that stay open or answer elsewhere.
    pub(crate) limit: Option<Duration>,
}

impl<'a> Ask<'a> {
    pub(crate) fn own(method: Method, replaced: &'a [(Key, Option<Vec<u8>>)]) -> Self {
        Self {
            id: None,
            method,
            target: None,
            outbound: Outbound { replaced, ..Outbound::default() },
            capabilities: b"{}",
            params: &[],
            channel: None,
            sink: None,
            assertion: None,
            tool: None,
            limit: Some(DEFAULT_TIMEOUT),
        }
    }
}

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
