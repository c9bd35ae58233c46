//! Logs, metrics, traces and the audit trail, for operators. Telemetry makes no decisions, and
//! never receives results or credentials; only the audit trail receives arguments.
//!
//! At default settings a forwarded call costs a [`ToolMetrics::record`] and two durations by the
//! conventions (atomics, tens of nanoseconds each), and a check whether its audit record is enabled
//! (about a nanosecond). No lock is taken, and no span is created.

pub mod audit;
mod batches;
mod counters;
mod histogram;
mod labels;
mod log;
mod log_records;
mod metrics;
mod operation;
mod readings;
pub mod request;
mod trace;

use std::collections::BTreeMap;

use lockgate_text::settings;

pub use batches::{ExportError, Way};
pub use counters::{
    Bounds, Number, RECENT_STEP, RECENT_STEPS, RecentCalls, ServerFigures, ServerMetrics,
    ToolFigures, ToolMetrics,
};
pub use histogram::{DURATION_BUCKETS, DurationCounts, estimate_percentile, find_bucket};
pub use labels::{
    Denial, Ending, FailureType, Network, Notification, OperationLabels, Outcome, Rejection,
    ServerState, Unknown,
};
pub use log::{Guard, LogError, init};
pub use metrics::{Gauges, KeySet, Metrics};
pub use operation::{CallTrace, Note, OperationSpan, TOOL_ERROR, Target, Tracer};
pub use trace::{TraceContext, TraceParent};

// The validated configuration of telemetry. Nothing here reads a file or the environment.

/// Logs, traces and the bounds of metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Filter as in `tracing`'s `EnvFilter`: `info`, `lockgate=debug,warn` …
    pub level: String,
    pub format: Format,
    /// OTLP/HTTP endpoint for traces, such as `http://127.0.0.1:4318/v1/traces`; no export without
    /// it.
    pub otlp: Option<url::Url>,
    /// OTLP/HTTP endpoint for log lines, such as `http://127.0.0.1:4318/v1/logs`.
    pub otlp_logs: Option<url::Url>,
    /// Settings of both exports.
    pub export: Export,
    /// Tools counted individually; further tools are counted together as `other`.
    pub tools: usize,
    pub audit: Option<audit::Config>,
}

/// Settings of exports to a collector.
#[derive(Clone, PartialEq, Eq)]
pub struct Export {
    /// Headers for the collector, which may be secret.
    pub headers: BTreeMap<String, String>,
    pub service_name: String,
    /// Further attributes of the process.
    pub resource: BTreeMap<String, String>,
    /// Recorded traces per thousand that begin here.
    pub sampled: u16,
}

impl Default for Export {
    fn default() -> Self {
        Self {
            headers: BTreeMap::new(),
            service_name: "lockgate".to_owned(),
            resource: BTreeMap::new(),
            sampled: 1000,
        }
    }
}

// Hides the headers.
lockgate_text::debug_fields!(Export: service_name, resource, sampled);

settings! {
    /// The format of log lines on stderr: readable text, in colour on a terminal, or one JSON
    /// object per line.
    #[serde(rename_all = "lowercase")]
    pub enum Format { Text, Json }
}
