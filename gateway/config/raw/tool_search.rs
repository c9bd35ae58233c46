//! `tool_search`: how clients find tools that are not listed.

use std::collections::BTreeMap;

#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::leaf::{List, Whole};

#[derive(Default, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct ToolSearch {
    /// Tools that endpoints list: `full`, all of them; `search`, tools that find and call the
    /// others; `auto`, as `search` from `threshold` tools, except for the clients in `deferring`.
    pub tools: ToolsMode,
    /// Other values of `tools` for single endpoints, by path: `/mcp`, `/servers/NAME/mcp`,
    /// `/agents/ID/mcp` or `/endpoints/NAME/mcp`; at most 1000.
    pub endpoints: BTreeMap<String, ToolsMode>,
    /// Number of tools from which `auto` searches, 1–100000.
    pub threshold: Whole<1, 100_000, 60>,
    /// Names of tools, as the endpoint lists them, that stay listed.
    pub always: List,
    /// Words of queries, each with words of tools of the same meaning; at most 1000.
    pub synonyms: BTreeMap<String, List>,
    /// Names of clients (`clientInfo.name`) that load definitions on demand. Default
    /// `claude-code`.
    pub deferring: Option<List>,
}

#[derive(Clone, Copy, Default, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "lowercase")]
#[cfg_attr(test, schemars(inline))]
pub enum ToolsMode {
    #[default]
    Full,
    Search,
    Auto,
}
