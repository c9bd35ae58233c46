//! Durations of MCP operations and sessions, by the labels of the OpenTelemetry conventions for
//! MCP, with a table per tool, per server and for the gateway. A table is bounded and only grows,
//! and a lookup neither locks nor allocates.
//! <https://opentelemetry.io/docs/specs/semconv/gen-ai/mcp/>

use std::sync::OnceLock;
use std::time::Duration;

use prometheus::proto::{self, LabelPair};

use crate::histogram::Histogram;
use crate::labels::pair;

/// JSON-RPC codes that blame the caller, which are not errors of the responder.
pub(crate) const CALLERS_FAULTS: [i64; 5] = [-32700, -32600, -32601, -32602, -32002];
/// The label of methods that the protocol does not define.
pub(crate) const OTHER_METHOD: &str = "_OTHER";
/// The labels of an operation, besides its target. Sessions have no method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OperationLabels {
    /// The method's protocol name; empty for undefined methods.
    pub method: &'static str,
    /// The negotiated protocol revision.
    pub revision: Option<&'static str>,
    pub network: Network,
    pub ending: Ending,
}

/// The transport of an operation's messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// stdin and stdout.
    Pipe,
    /// HTTP, with its version if known.
    Http(Option<&'static str>),
}

/// The result of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    Success,
    /// Answered with this error, which blames the caller.
    Refused(i64),
    /// Answered with this JSON-RPC error.
    Error(i64),
    /// Failed without a response; the reason is from a small fixed set.
    Failed(&'static str),
    /// All results of operations beyond the bound.
    Other,
}

impl Ending {
    /// Classifies a JSON-RPC error from the responder's view.
    pub fn answered(code: i64) -> Self {
        if CALLERS_FAULTS.contains(&code) { Self::Refused(code) } else { Self::Error(code) }
    }
}

/// A table of `N` slots. The last slot is for all label sets that find no free slot.
#[derive(Debug)]
pub(crate) struct Durations<const N: usize>([OnceLock<Box<Series>>; N]);

#[derive(Debug)]
struct Series {
    labels: OperationLabels,
    durations: Histogram,
}

impl<const N: usize> Default for Durations<N> {
    fn default() -> Self {
        Self(std::array::from_fn(|_| OnceLock::new()))
    }
}

impl<const N: usize> Durations<N> {
    pub(crate) fn observe(&self, labels: OperationLabels, duration: Duration) {
        let Some((last, others)) = self.0.split_last() else { return };
        // Remote peers determine the error codes, so half of the slots are reserved for successes.
        let open = match labels.ending {
            Ending::Success => others.len(),
            _ => others.len() / 2,
        };
        for place in others.iter().take(open) {
            let series = place.get_or_init(|| Series::boxed(labels));
            if series.labels == labels {
                return series.durations.observe(duration);
            }
        }
        let other = OperationLabels { method: "", ending: Ending::Other, ..labels };
        last.get_or_init(|| Series::boxed(other)).durations.observe(duration);
    }

    pub(crate) fn each(&self, mut see: impl FnMut(&OperationLabels, proto::Histogram)) {
        for series in self.0.iter().filter_map(OnceLock::get) {
            see(&series.labels, series.durations.snapshot());
        }
    }
}

impl Series {
    fn boxed(labels: OperationLabels) -> Box<Self> {
        Box::new(Self { labels, durations: Histogram::of_conventions() })
    }
}

/// The labels under their Prometheus names.
impl OperationLabels {
    /// Returns the labels of an operation; `tool` is the one that it calls.
    pub(crate) fn pairs(&self, tool: Option<&str>) -> Vec<LabelPair> {
        let mut pairs = self.session_pairs();
        let method = if self.method.is_empty() { OTHER_METHOD } else { self.method };
        pairs.push(pair("mcp_method_name", method));
        if let Some(tool) = tool {
            pairs.push(pair("gen_ai_operation_name", "execute_tool"));
            pairs.push(pair("gen_ai_tool_name", tool));
        }
        pairs
    }

    pub(crate) fn session_pairs(&self) -> Vec<LabelPair> {
        let mut pairs = Vec::new();
        if let Some(revision) = self.revision {
            pairs.push(pair("mcp_protocol_version", revision));
        }
        match self.network {
            Network::Pipe => pairs.push(pair("network_transport", "pipe")),
            Network::Http(version) => {
                pairs.push(pair("network_transport", "tcp"));
                pairs.push(pair("network_protocol_name", "http"));
                if let Some(version) = version {
                    pairs.push(pair("network_protocol_version", version));
                }
            }
        }
        if let Ending::Refused(code) | Ending::Error(code) = self.ending {
            pairs.push(pair("rpc_response_status_code", &code.to_string()));
        }
        match self.ending {
            Ending::Success | Ending::Refused(_) => {}
            Ending::Error(code) => pairs.push(pair("error_type", &code.to_string())),
            Ending::Failed(kind) => pairs.push(pair("error_type", kind)),
            Ending::Other => pairs.push(pair("error_type", "_OTHER")),
        }
        pairs
    }
}

#[cfg(test)]
mod tests;
