//! The validated configuration of telemetry. Nothing here reads a file or the environment.

use std::collections::BTreeMap;

use lockgate_text::setting::{Text, Whole};
use lockgate_text::settings;

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
    pub export: Export,
    pub audit: Option<crate::audit::Config>,
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
