//! What telemetry needs to know, already validated. It reads no file and no environment.

use std::collections::BTreeMap;
use std::fmt;

/// Logs, traces and the bounds of metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Filter as in `tracing`'s `EnvFilter`: `info`, `lockgate=debug,warn` …
    pub level: String,
    pub format: Format,
    /// OTLP/HTTP endpoint for traces, such as `http://127.0.0.1:4318/v1/traces`; no export without
    /// it.
    pub otlp: Option<url::Url>,
    /// The same for the lines of the log, such as `http://127.0.0.1:4318/v1/logs`.
    pub otlp_logs: Option<url::Url>,
    /// How both get there, and what they say of this process.
    pub export: Export,
    /// Distinct tools counted one by one; further ones are counted together as `other`.
    pub tools: usize,
    /// The audit trail, if there is one.
    pub audit: Option<crate::audit::Config>,
}

/// See [`Config::export`].
#[derive(Clone, PartialEq, Eq)]
pub struct Export {
    /// Headers for the collector, which may be secrets.
    pub headers: BTreeMap<String, String>,
    pub service_name: String,
    /// Further attributes of the process.
    pub resource: BTreeMap<String, String>,
    /// Of a thousand traces that begin here, so many are recorded.
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

/// Shows no headers.
impl fmt::Debug for Export {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Export")
            .field("service_name", &self.service_name)
            .field("resource", &self.resource)
            .field("sampled", &self.sampled)
            .finish_non_exhaustive()
    }
}

/// How a log line looks on stderr.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// For people: colour on a terminal.
    Text,
    /// One JSON object a line.
    Json,
}
