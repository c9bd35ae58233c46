//! How long operations and sessions of MCP take, by what the OpenTelemetry conventions for MCP tell
//! them apart by. One table per tool, per server and for the gateway; it is bounded, it only grows,
//! and looking something up in it neither locks nor allocates.
//! <https://opentelemetry.io/docs/specs/semconv/gen-ai/mcp/>

use std::sync::OnceLock;
use std::time::Duration;

use crate::histogram::{Histogram, Snapshot};

/// JSON-RPC codes that say that the one who asked is wrong. To the one who answers they are no
/// errors.
pub(crate) const CALLERS_FAULTS: [i64; 5] = [-32700, -32600, -32601, -32602, -32002];
/// What stands for a method that the protocol does not have.
pub(crate) const OTHER_METHOD: &str = "_OTHER";
/// What tells operations apart, besides what they are about. Sessions have no method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OperationLabels {
    /// As the protocol names it; empty for one that the protocol does not have.
    pub method: &'static str,
    /// The revision of the protocol, where one was agreed on.
    pub revision: Option<&'static str>,
    pub network: Network,
    pub ending: Ending,
}

/// What carries the messages of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// stdin and stdout.
    Pipe,
    /// HTTP, in this version where it is known.
    Http(Option<&'static str>),
}

/// How an operation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    Success,
    /// Answered with this error, which says that the one who asked is wrong.
    Refused(i64),
    /// Answered with this JSON-RPC error.
    Error(i64),
    /// Without such an answer; one of few words.
    Failed(&'static str),
    /// Stands for all endings of operations beyond the bound.
    Other,
}

impl Ending {
    /// What a JSON-RPC error is to the one who answers with it.
    #[must_use]
    pub fn answered(code: i64) -> Self {
        if CALLERS_FAULTS.contains(&code) { Self::Refused(code) } else { Self::Error(code) }
    }
}

/// See the module. The last of its `N` places is for all that find none.
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
        // Endings are what others make up: they leave half of the places to what succeeds.
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

    pub(crate) fn each(&self, mut see: impl FnMut(&OperationLabels, Snapshot)) {
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

/// The labels as Prometheus has the conventions' names.
#[derive(Debug, Default)]
pub(crate) struct Pairs(Vec<(&'static str, String)>);

impl Pairs {
    pub(crate) fn of_operation(labels: &OperationLabels) -> Self {
        let mut pairs = Self::of_session(labels);
        let method = if labels.method.is_empty() { OTHER_METHOD } else { labels.method };
        pairs.add("mcp_method_name", method);
        pairs
    }

    pub(crate) fn of_session(labels: &OperationLabels) -> Self {
        let mut pairs = Self::default();
        if let Some(revision) = labels.revision {
            pairs.add("mcp_protocol_version", revision);
        }
        match labels.network {
            Network::Pipe => pairs.add("network_transport", "pipe"),
            Network::Http(version) => {
                pairs.add("network_transport", "tcp");
                pairs.add("network_protocol_name", "http");
                if let Some(version) = version {
                    pairs.add("network_protocol_version", version);
                }
            }
        }
        match labels.ending {
            Ending::Success => {}
            Ending::Refused(code) => pairs.add("rpc_response_status_code", &code.to_string()),
            Ending::Error(code) => {
                pairs.add("rpc_response_status_code", &code.to_string());
                pairs.add("error_type", &code.to_string());
            }
            Ending::Failed(kind) => pairs.add("error_type", kind),
            Ending::Other => pairs.add("error_type", "_OTHER"),
        }
        pairs
    }

    pub(crate) fn of_tool(labels: &OperationLabels, tool: &str) -> Self {
        let mut pairs = Self::of_operation(labels);
        pairs.add("gen_ai_operation_name", "execute_tool");
        pairs.add("gen_ai_tool_name", tool);
        pairs
    }

    fn add(&mut self, name: &'static str, value: &str) {
        self.0.push((name, value.to_owned()));
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.0.iter().map(|(name, value)| (*name, value.as_str()))
    }
}

#[cfg(test)]
mod tests;
