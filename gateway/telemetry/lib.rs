//! Logs, metrics, traces and the audit trail, for operators. Telemetry makes no decisions, and
//! never receives results or credentials; only the audit trail receives arguments.
//!
//! At default settings a forwarded call costs a [`ToolMetrics::record`] and two durations by the
//! conventions (atomics, tens of nanoseconds each), and a check whether its audit record is enabled
//! (about a nanosecond). No lock is taken, and no span is created.

pub mod audit;
mod batches;
mod config;
mod counters;
mod histogram;
mod labels;
mod log;
mod log_records;
mod metrics;
mod operation;
mod process;
mod readings;
pub mod request;
mod trace;

pub use batches::{ExportError, Way};
pub use config::{Config, Export, Format};
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
