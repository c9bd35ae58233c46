//! The duration of a request to a server, for the metrics: from writing it to its answer or its
//! cancellation.

use std::sync::Arc;
use std::time::{Duration, Instant};

use lockgate_admission::clock;
use lockgate_protocol::jsonrpc::{Outcome, Response};
use lockgate_protocol::key::Key;
use lockgate_protocol::{outbound, scan};
use lockgate_telemetry::{Ending, OperationLabels, ServerMetrics, TOOL_ERROR, ToolMetrics};

use crate::failure::UpstreamError;
use crate::http::HttpTransport;
use crate::identity_assertion::IdentityAssertion;

/// A running measurement; recorded on drop.
pub(super) struct ClientOperation {
    server: Arc<ServerMetrics>,
    tool: Option<Arc<ToolMetrics>>,
    labels: OperationLabels,
    began: Instant,
    /// The timeout; a request that is dropped after it counts as timed out, not as cancelled.
    limit: Option<Duration>,
    is_over: bool,
}

impl ClientOperation {
    pub(super) fn begin(
        server: Arc<ServerMetrics>,
        tool: Option<Arc<ToolMetrics>>,
        labels: OperationLabels,
        limit: Option<Duration>,
    ) -> Self {
        Self { server, tool, labels, began: clock::now(), limit, is_over: false }
    }

    pub(super) fn end(mut self, answer: &Result<Response, UpstreamError>) {
        self.is_over = true;
        self.labels.ending = match answer {
            Ok(response) => match &response.outcome {
                Outcome::Error(error) => Ending::Error(error.code),
                Outcome::Result(_, members) => match scan::get(members, Key::IsError) {
                    Some(span) if span.of(&response.text) == b"true" => Ending::Failed(TOOL_ERROR),
                    _ => Ending::Success,
                },
            },
            Err(failure) => Ending::Failed(failure.kind.as_str()),
        };
    }
}

impl Drop for ClientOperation {
    fn drop(&mut self) {
        let duration = clock::elapsed(self.began);
        if !self.is_over {
            let is_late = self.limit.is_some_and(|limit| duration >= limit);
            self.labels.ending = Ending::Failed(if is_late { "timeout" } else { "cancelled" });
        }
        self.server.asked(self.tool.as_deref(), self.labels, duration);
    }
}

/// Sends a cancellation to a legacy server on drop.
pub(super) struct CancelOnDrop<'a> {
    /// `None` once the answer has arrived.
    pub(super) transport: Option<&'a Arc<HttpTransport>>,
    pub(super) id: u64,
    /// The identity of the caller that gave up.
    pub(super) assertion: Option<&'a Arc<dyn IdentityAssertion>>,
}

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        if let Some(transport) = self.transport
            && tokio::runtime::Handle::try_current().is_ok()
        {
            let text = outbound::cancelled(
                self.id.to_string().as_bytes(),
                "the caller is no longer waiting",
            );
            transport.notify(text.into(), self.assertion.map(|assertion| &**assertion));
        }
    }
}
