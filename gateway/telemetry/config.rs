//! What telemetry needs to know, already validated. It reads no file and no environment.

/// Logs, traces and the bounds of metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Filter as in `tracing`'s `EnvFilter`: `info`, `lockgate=debug,warn` …
    pub level: String,
    pub format: Format,
    /// OTLP/HTTP endpoint for traces, such as `http://127.0.0.1:4318/v1/traces`; no export without
    /// it.
    pub otlp: Option<url::Url>,
    /// Distinct tools counted one by one; further ones are counted together as `other`.
    pub tools: usize,
    /// The audit trail, if there is one.
    pub audit: Option<crate::audit::Config>,
}

/// How a log line looks on stderr.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// For people: colour on a terminal.
    Text,
    /// One JSON object a line.
    Json,
}
