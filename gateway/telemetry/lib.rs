//! What operators see of the gateway: logs, metrics, traces and the audit line. It decides nothing,
//! and it never sees arguments, results or credentials.
//!
//! A forwarded call at default settings pays for one [`ToolMetrics::record`] (plain atomics, tens
//! of nanoseconds) and for asking whether its audit record is wanted (about a nanosecond). Nothing
//! allocates, nothing locks, no span is made.

pub mod audit;
mod config;
mod counters;
mod export;
mod histogram;
mod log;
mod metrics;
mod numbers;
pub mod request;
mod spans;
mod trace;

pub use config::{Config, Format};
pub use counters::{
    Bounds, Entered, Gauge, Notification, Outcome, Rejection, ServerMetrics, ServerState,
    ToolMetrics,
};
pub use log::{Guard, LogError, init};
pub use metrics::Metrics;
pub use spans::{Call, TraceError, Tracer};
pub use trace::{TraceContext, TraceParent};
