//! `tool_search`: paths of endpoints, and synonyms.

use std::collections::{BTreeMap, BTreeSet};

use lockgate_search::Synonyms;

use super::Check;
use crate::raw;

/// Entries of each map.
const MAX_ENTRIES: usize = 1000;
/// Clients that load definitions on demand, unless configured.
const DEFERRING: &str = "claude-code";

fn mode(raw: raw::ToolsMode) -> lockgate_proxy::ToolsMode {
    match raw {
        raw::ToolsMode::Full => lockgate_proxy::ToolsMode::Full,
        raw::ToolsMode::Search => lockgate_proxy::ToolsMode::Search,
        raw::ToolsMode::Auto => lockgate_proxy::ToolsMode::Auto,
    }
}

impl Check<'_> {
    pub fn tool_search(&mut self, raw: &raw::ToolSearch) -> lockgate_proxy::ToolSearch {
        let mut endpoints = BTreeMap::new();
        for (path, tools) in &raw.endpoints {
            if !is_endpoint(path) {
                self.error(
                    &["tool_search", "endpoints", path],
                    "is not the path of an endpoint",
                    "use /mcp, /servers/NAME/mcp, /agents/ID/mcp or /endpoints/NAME/mcp",
                );
            }
            endpoints.insert(path.clone(), mode(*tools));
        }
        let maps = [("endpoints", raw.endpoints.len()), ("synonyms", raw.synonyms.len())];
        for (name, entries) in maps {
            if entries > MAX_ENTRIES {
                let words = format!("must not have more than {MAX_ENTRIES} entries");
                self.error(&["tool_search", name], words, "remove some");
            }
        }
        let mut synonyms = Vec::new();
        for (word, meanings) in raw.synonyms.iter().take(MAX_ENTRIES) {
            synonyms.push((word.as_str(), meanings.0.as_slice()));
        }
        let deferring = match &raw.deferring {
            Some(names) => names.0.iter().cloned().collect(),
            None => BTreeSet::from([DEFERRING.to_owned()]),
        };
        let always = raw.always.0.iter().cloned().collect();
        lockgate_proxy::ToolSearch {
            tools: mode(raw.tools),
            endpoints,
            threshold: raw.threshold.size(),
            always,
            synonyms: Synonyms::new(synonyms),
            deferring,
        }
    }
}

fn is_endpoint(path: &str) -> bool {
    if path == "/mcp" {
        return true;
    }
    let Some(inner) = path.strip_suffix("/mcp") else { return false };
    let kinds = ["/servers/", "/agents/", "/endpoints/"];
    let name = kinds.iter().find_map(|kind| inner.strip_prefix(kind));
    name.is_some_and(|name| !name.is_empty() && !name.contains('/'))
}
