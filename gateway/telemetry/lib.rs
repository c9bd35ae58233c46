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

use lockgate_text::setting::{Text, Whole};
use lockgate_text::settings;

pub use batches::{ExportError, Way};
pub use counters::{
    Gauges, Number, RECENT_STEP, RECENT_STEPS, RecentCalls, ServerFigures, ServerMetrics,
    ToolFigures, ToolMetrics,
};
pub use histogram::{DURATION_BUCKETS, DurationCounts, estimate_percentile, find_bucket};
pub use labels::{
    Denial, Ending, FailureType, Network, Notification, OperationLabels, Outcome, Rejection,
    ServerState, Unknown,
};
pub use log::{Guard, LogError, init};
pub use metrics::{KeySet, Metrics};
pub use operation::{CallTrace, Note, OperationSpan, TOOL_ERROR, Tracer};
pub use trace::{TraceContext, TraceParent};

// The validated configuration of telemetry. Nothing here reads a file or the environment.

/// Logs, traces and the bounds of metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Filter as in `tracing`'s `EnvFilter`: `info`, `lockgate=debug,warn` …
    pub level: String,
    pub format: Format,
    pub export: Export,
    pub audit: Option<audit::Config>,
}

settings! {
    // Exports to a collector, and the bounds of metrics.

    pub struct Export as "Telemetry" {
        /// OTLP/HTTP endpoint for traces, such as `http://127.0.0.1:4318/v1/traces`; none without
        /// it.
        pub otlp: Option<String> = Option<Text>,
        /// OTLP/HTTP endpoint for log records, such as `http://127.0.0.1:4318/v1/logs`; none
        /// without it. They are also written to stderr.
        pub otlp_logs: Option<String> = Option<Text>,
        /// Headers for the collector, such as `Authorization: "Bearer ${OTLP_TOKEN}"`; at most 32.
        pub headers: BTreeMap<String, String> = BTreeMap<String, Text>,
        /// The gateway's name at the collector (`service.name`). Default `lockgate`.
        pub service_name: String = Text | "lockgate",
        /// Further attributes of the gateway there, such as `deployment.environment.name:
        /// production`.
        pub resource: BTreeMap<String, String> = BTreeMap<String, Text>,
        /// Of a thousand traces that begin here, 0–1000 are recorded. Traces that a client began
        /// follow the client's sampling decision.
        @serde(rename = "samples_per_thousand")
        pub sampled: u16 = Whole<0, 1000, 1000>,
        /// Distinct tools counted individually in metrics, 1–100000; further ones are counted as
        /// `other`.
        pub tools: usize = Whole<1, 100_000, 1000>,
    }

    /// The format of log lines on stderr: readable text, in colour on a terminal, or one JSON
    /// object per line.
    #[serde(rename_all = "lowercase")]
    pub enum Format { Text, Json }
}

// Hides headers and addresses.
lockgate_text::debug_fields!(Export: service_name, resource, sampled, tools);
