//! One request to a server, before it is written in the server's era.

use std::sync::Arc;
use std::time::Duration;

use lockgate_protocol::method::Method;
use lockgate_protocol::outbound::Outbound;
use lockgate_telemetry::ToolMetrics;

use crate::call::{ClientChannel, ResponseSink};
use crate::voucher::Voucher;

/// How long a server may work in silence on a request of the gateway itself.
const OWN_LIMIT: Duration = Duration::from_secs(30);

/// One request of ours or of a client, ready to be written.
pub(crate) struct Ask<'a> {
    /// An id of its own, from `Connection::expect_acknowledgement` or `Connection::mint_id`.
    pub(crate) id: Option<u64>,
    pub(crate) method: Method,
    /// What the request is about, for `Mcp-Name`.
    pub(crate) target: Option<&'a str>,
    pub(crate) outbound: Outbound<'a>,
    /// JSON text of the client's capabilities, for modern servers.
    pub(crate) capabilities: &'a [u8],
    /// `Mcp-Param-*` headers.
    pub(crate) params: &'a [(&'a str, String)],
    pub(crate) channel: Option<Arc<dyn ClientChannel>>,
    /// Takes the answer when it is large.
    pub(crate) sink: Option<Arc<dyn ResponseSink>>,
    /// For whom it is; without it for whose the connection is.
    pub(crate) voucher: Option<Arc<dyn Voucher>>,
    /// The tool that is called, as it is counted.
    pub(crate) tool: Option<Arc<ToolMetrics>>,
    /// How long the server may work on it in silence; none for what stays open or goes aside.
    pub(crate) limit: Option<Duration>,
}

impl<'a> Ask<'a> {
    /// A request of the gateway itself.
    pub(crate) fn own(method: Method, replaced: &'a [(&'a str, Option<Vec<u8>>)]) -> Self {
        Self {
            id: None,
            method,
            target: None,
            outbound: Outbound { replaced, ..Outbound::default() },
            capabilities: b"{}",
            params: &[],
            channel: None,
            sink: None,
            voucher: None,
            tool: None,
            limit: Some(OWN_LIMIT),
        }
    }

    /// One whose time says nothing about the server.
    pub(crate) fn unbounded(method: Method) -> Self {
        Self { limit: None, ..Self::own(method, &[]) }
    }
}
