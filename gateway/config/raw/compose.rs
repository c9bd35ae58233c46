//! `groups.NAME` and `endpoints.NAME`: tools of several servers as one, and composed endpoints.

use std::collections::BTreeMap;

#[cfg(test)]
use schemars::JsonSchema;
use serde::Deserialize;

use super::leaf::{List, Text};

#[derive(Default, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Group {
    /// Names of 2 to 100 servers with equal tools.
    pub servers: List,
    /// The argument that selects the server.
    pub argument: Option<Text>,
}

#[derive(Default, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Endpoint {
    /// Patterns of its tools: `server/name`, with `*`, `?`, `[…]` and `{a,b}`.
    pub tools: List,
    /// Patterns of its prompts, likewise.
    pub prompts: List,
    /// Patterns of its resources, templates and skills: `server/uri`, or the URI.
    pub resources: List,
    /// Other names of tools and prompts, by `server/name`: 1 to 64 letters, digits, `_`, `-` and
    /// `.`.
    pub rename: BTreeMap<String, Text>,
    /// Other descriptions, by `server/name` or `server/uri`; at most 4096 bytes.
    pub describe: BTreeMap<String, Text>,
}
