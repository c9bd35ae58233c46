//! `policy`: allow lists and rates.

use lockgate_policy::Allow;
#[cfg(test)]
use schemars::JsonSchema;
use serde::Deserialize;

use super::leaf::{List, Whole};

#[derive(Default, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Policy {
    /// Policy files, folders of them, or patterns such as `policies/*.yaml`; relative to this file.
    /// With at least one of them, the default is to deny.
    pub files: List,
    /// Servers, by name.
    pub servers: Allow,
    /// Tools, by exposed name: `time__get_current_time`, or `time/get_current_time`. Production
    /// requires it, or `files`.
    pub tools: Allow,
    /// Prompts, by exposed name.
    pub prompts: Allow,
    /// Resources and templates, by exposed URI.
    pub resources: Allow,
    /// Tool calls per caller and minute, 1–1000000; not limited without it.
    pub calls_per_minute: Option<Whole<1, 1_000_000, 0>>,
    /// Completions per caller and minute, 1–1000000.
    pub completions_per_minute: Whole<1, 1_000_000, 120>,
}
