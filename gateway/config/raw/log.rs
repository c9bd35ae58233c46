//! `log` and `telemetry`: what is told about the gateway's work.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::leaf::{Text, Whole};

#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Log {
    /// `off`, `error`, `warn`, `info`, `debug` or `trace`, also per module:
    /// `info,lockgate_proxy=debug`. Default `info`.
    pub level: Option<Text>,
    /// `text` for people or `json`, one object a line. Default `text`, in production `json`.
    pub format: Option<Format>,
}

#[derive(Clone, Copy, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum Format {
    Text,
    Json,
}

#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Telemetry {
    /// OTLP/HTTP endpoint for traces, such as `http://127.0.0.1:4318/v1/traces`; none without it.
    pub otlp: Option<Text>,
    /// Distinct tools counted one by one in metrics, 1–100000; further ones are counted as `other`.
    pub tools: Whole<1, 100_000, 1000>,
}
