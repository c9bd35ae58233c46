//! The labels of metrics. Closed sets of words, which are also in logs and the audit trail: each
//! value is the index of its counter. Durations of MCP operations and sessions, by the labels of
//! the OpenTelemetry conventions for MCP, with a table per tool, per server and for the gateway. A
//! table is bounded and only grows, and a lookup neither locks nor allocates.
//! <https://opentelemetry.io/docs/specs/semconv/gen-ai/mcp/>

use std::sync::OnceLock;
use std::time::Duration;

use prometheus::proto::{self, LabelPair};

use crate::histogram::{CONVENTIONS, Histogram};

lockgate_text::words! {
    /// The outcome of a call, as the client observes it.
    pub enum Outcome {
        Ok = "ok",
        /// A result with `isError`.
        ToolError = "tool_error",
        /// A JSON-RPC error.
        ProtocolError = "protocol_error",
        /// Denied by policy; the server was not called.
        Denied = "denied",
        Timeout = "timeout",
        /// Cancelled by the client.
        Cancelled = "cancelled",
        /// The server was unreachable, or its breaker was open.
        Unavailable = "unavailable",
    }
}

lockgate_text::words! {
    /// The type of a failed tool call in which its server was involved.
    pub enum FailureType {
        /// The server was unreachable, or the connection was lost.
        Connection = "connection",
        /// The server requires credentials that it did not receive.
        Authentication = "authentication",
        Timeout = "timeout",
        /// The server or the tool returned an error.
        Execution = "execution",
        /// The server rejected the arguments.
        Validation = "validation",
    }
}

lockgate_text::words! {
    /// The outcome of a notification that a call awaits approval.
    pub enum Notification {
        Delivered = "delivered",
        /// All attempts failed.
        Failed = "failed",
        /// The queue was full.
        Dropped = "dropped",
    }
}

lockgate_text::words! {
    /// The reason a request was rejected before it became a call.
    pub enum Rejection {
        /// `Host` is not accepted.
        Host = "host",
        Origin = "origin",
        /// Missing or invalid credentials.
        Unauthenticated = "unauthenticated",
        /// Valid credentials without the required permission.
        Forbidden = "forbidden",
        NotFound = "not_found",
        /// HTTP method, media type or `Accept`.
        Unsupported = "unsupported",
        /// Invalid HTTP, JSON or JSON-RPC.
        Malformed = "malformed",
        /// Headers and body disagree.
        Mismatch = "mismatch",
        BodyTooLarge = "body_too_large",
        HeadersTooLarge = "headers_too_large",
        /// The client sent the request too slowly.
        SlowClient = "slow_client",
        /// The session is unknown or belongs to another principal.
        Session = "session",
        RateLimited = "rate_limited",
        /// A limit of the gateway was reached.
        Overloaded = "overloaded",
        /// The keys of a token's issuer are unavailable.
        IssuerKeys = "issuer_keys",
        /// Stored credentials cannot be decrypted.
        Credentials = "credentials",
    }
}

lockgate_text::words! {
    /// The reason for a policy denial.
    pub enum Denial {
        /// The rule forbids the request, or its arguments.
        Policy = "policy",
        /// The rule hides the requested item.
        Hidden = "hidden",
        /// Too many requests, in total or concurrently.
        Rate = "rate",
        /// The credential lacks a scope.
        Scopes = "scopes",
        /// The call was not approved.
        Approval = "approval",
        /// The rule is in dry-run mode and would have denied the request.
        DryRun = "dry_run",
    }
}

lockgate_text::words! {
    /// The kind of an unknown name in a request.
    pub enum Unknown {
        Tool = "tool",
        Prompt = "prompt",
        Resource = "resource",
        Task = "task",
        Method = "method",
    }
}

lockgate_text::words! {
    /// The state of a server.
    pub enum ServerState {
        /// Starting, or waiting for the first retry.
        Pending = "pending",
        Connected = "connected",
        /// Connected but not answering: slow or hung.
        Unresponsive = "unresponsive",
        NeedsAuth = "needs-auth",
        Failed = "failed",
        Disabled = "disabled",
        /// Disconnected while idle; connected on demand.
        Resting = "resting",
    }
}

/// The name for all values of a kind beyond its bound.
pub(crate) const OTHER: &str = "other";

/// Returns a label of a series.
pub(crate) fn pair(name: &str, value: &str) -> LabelPair {
    let mut pair = LabelPair::default();
    pair.set_name(name.to_owned());
    pair.set_value(value.to_owned());
    pair
}

/// JSON-RPC codes that blame the caller, which are not errors of the responder.
const CALLERS_FAULTS: [i64; 5] = [-32700, -32600, -32601, -32602, -32002];
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

    pub(crate) fn status_code(self) -> Option<String> {
        match self {
            Self::Refused(code) | Self::Error(code) => Some(code.to_string()),
            _ => None,
        }
    }

    /// Returns the type of a failure.
    pub(crate) fn error_type(self) -> Option<String> {
        match self {
            Self::Success | Self::Refused(_) => None,
            Self::Error(code) => Some(code.to_string()),
            Self::Failed(kind) => Some(kind.to_owned()),
            Self::Other => Some("_OTHER".to_owned()),
        }
    }
}

/// A table of `N` slots. The last slot is for all label sets that find no free slot.
#[derive(Debug)]
pub(crate) struct Durations<const N: usize>([OnceLock<Box<Series>>; N]);

type Series = (OperationLabels, Histogram);

impl<const N: usize> Default for Durations<N> {
    fn default() -> Self {
        Self([const { OnceLock::new() }; N])
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
            let (known, durations) = &**place.get_or_init(|| start(labels));
            if *known == labels {
                return durations.observe(duration);
            }
        }
        let other = OperationLabels { method: "", ending: Ending::Other, ..labels };
        last.get_or_init(|| start(other)).1.observe(duration);
    }

    pub(crate) fn each(&self, mut see: impl FnMut(&OperationLabels, proto::Histogram)) {
        for series in self.0.iter().filter_map(OnceLock::get) {
            see(&series.0, series.1.snapshot());
        }
    }
}

fn start(labels: OperationLabels) -> Box<Series> {
    Box::new((labels, Histogram::new(&CONVENTIONS)))
}

impl OperationLabels {
    /// Returns the labels of an operation under their Prometheus names; `tool` is the one that it
    /// calls.
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
        pairs.extend(self.revision.map(|revision| pair("mcp_protocol_version", revision)));
        match self.network {
            Network::Pipe => pairs.push(pair("network_transport", "pipe")),
            Network::Http(version) => {
                pairs.push(pair("network_transport", "tcp"));
                pairs.push(pair("network_protocol_name", "http"));
                pairs.extend(version.map(|version| pair("network_protocol_version", version)));
            }
        }
        let code = self.ending.status_code();
        pairs.extend(code.map(|code| pair("rpc_response_status_code", &code)));
        let error = self.ending.error_type();
        pairs.extend(error.map(|error| pair("error_type", &error)));
        pairs
    }
}

#[cfg(test)]
mod tests;
