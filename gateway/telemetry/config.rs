//! The validated configuration of telemetry. Nothing here reads a file or the environment.

use std::collections::BTreeMap;

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
    /// Settings of both exports.
    pub export: Export,
    /// Tools counted individually; further tools are counted together as `other`.
    pub tools: usize,
    pub audit: Option<crate::audit::Config>,
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
