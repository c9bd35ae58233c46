//! Statistics of calls in the API. Those of shared servers are for operators only, because they
//! would reveal the activity of other organisations.

use std::collections::BTreeMap;
use std::time::Duration;

use lockgate_authn::Role;
use lockgate_telemetry::{RecentCalls, ServerFigures, ToolFigures};
use lockgate_text::date;
use lockgate_upstream::Upstream;

use super::access::Caller;
use super::payloads::{members, types};

types! {
/// Outcomes of the calls of a server's tools.
output pub(crate) struct ServerMetrics {
    /// Start of the count (RFC 3339).
    pub(crate) since: String,
    pub(crate) calls: u64,
    /// Failed calls by cause: `connection`, `authentication`, `timeout`, `execution`, `validation`.
    pub(crate) errors: BTreeMap<&'static str, u64>,
    /// Milliseconds, estimated from a histogram.
    pub(crate) p50_ms: Option<f64>,
    pub(crate) p95_ms: Option<f64>,
}

/// Calls that ended within one time step.
output pub(crate) struct RecentStep {
    pub(crate) calls: u64,
    pub(crate) failed: u64,
    pub(crate) average_ms: Option<f64>,
}

/// Outcomes of the calls of a tool.
output pub(crate) struct ToolMetrics {
    /// Start of the count (RFC 3339).
    since: String,
    pub(crate) invocations: u64,
    successes: u64,
    pub(crate) failures: u64,
    /// Cancelled by their clients.
    cancelled: u64,
    /// Milliseconds.
    pub(crate) average_ms: Option<f64>,
    /// Milliseconds, estimated from a histogram.
    pub(crate) p95_ms: Option<f64>,
    /// When the last call ended (RFC 3339).
    pub(crate) last_invoked_at: Option<String>,
}
}

impl From<RecentCalls> for RecentStep {
    fn from(step: RecentCalls) -> Self {
        let average_ms = to_ms(step.average());
        Self { calls: step.calls, failed: step.failed, average_ms }
    }
}

impl From<ServerFigures> for ServerMetrics {
    fn from(figures: ServerFigures) -> Self {
        Self {
            since: date::of_time(figures.since),
            calls: figures.calls,
            errors: figures.errors,
            p50_ms: to_ms(figures.p50),
            p95_ms: to_ms(figures.p95),
        }
    }
}

impl From<ToolFigures> for ToolMetrics {
    fn from(figures: ToolFigures) -> Self {
        let last_invoked_at = figures.last.map(date::of_time);
        Self {
            since: date::of_time(figures.since),
            invocations: figures.invocations,
            successes: figures.successes,
            failures: figures.failures,
            cancelled: figures.cancelled,
            average_ms: to_ms(figures.average),
            p95_ms: to_ms(figures.p95),
            last_invoked_at,
        }
    }
}

/// Returns whether a caller may see the call statistics of a server in its view.
pub(crate) fn may_see_figures(caller: &Caller, server: &dyn Upstream) -> bool {
    let is_own = matches!(server.organisation(), Some(own) if **own == *caller.organisation());
    caller.role == Role::Operator || is_own
}

/// Converts a duration, with a precision of microseconds.
pub(crate) fn to_ms(time: Option<Duration>) -> Option<f64> {
    Some(time?.as_micros() as f64 / 1e3)
}

/// Returns a rank that sorts numbers as text.
pub(crate) fn rank_number(number: u64) -> String {
    format!("{number:020}")
}

/// Returns a rank that sorts milliseconds as text; missing values come first.
pub(crate) fn rank_ms(ms: Option<f64>) -> String {
    ms.map(|ms| format!("{ms:020.3}")).unwrap_or_default()
}
