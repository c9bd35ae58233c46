//! `log` and `telemetry`: logs, traces and metrics.

use std::collections::BTreeMap;

use lockgate_telemetry::Format;
#[cfg(test)]
use schemars::JsonSchema;
use serde::Deserialize;

use super::leaf::{Text, Whole};

#[derive(Default, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Log {
    /// `off`, `error`, `warn`, `info`, `debug` or `trace`, also per module:
    /// `info,lockgate_proxy=debug`. Default `info`.
    pub level: Option<Text>,
    /// `text` or `json`, one object per line. Default `text`, in production `json`.
    pub format: Option<Format>,
}

#[derive(Default, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Telemetry {
    /// OTLP/HTTP endpoint for traces, such as `http://127.0.0.1:4318/v1/traces`; none without it.
    pub otlp: Option<Text>,
    /// OTLP/HTTP endpoint for log records, such as `http://127.0.0.1:4318/v1/logs`; none without
    /// it. They are also written to stderr.
    pub otlp_logs: Option<Text>,
    /// Headers for the collector, such as `Authorization: "Bearer ${OTLP_TOKEN}"`; at most 32.
    pub headers: BTreeMap<String, Text>,
    /// The gateway's name at the collector (`service.name`). Default `lockgate`.
    pub service_name: Option<Text>,
    /// Further attributes of the gateway there, such as `deployment.environment.name: production`.
    pub resource: BTreeMap<String, Text>,
    /// Of a thousand traces that begin here, 0–1000 are recorded. Traces that a client began follow
    /// the client's sampling decision.
    pub samples_per_thousand: Whole<0, 1000, 1000>,
    /// Distinct tools counted individually in metrics, 1–100000; further ones are counted as
    /// `other`.
    pub tools: Whole<1, 100_000, 1000>,
}
