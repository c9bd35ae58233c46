//! `tool_search`: paths of endpoints, and synonyms.

use lockgate_proxy::ToolSearch;

use super::Check;

/// Entries of each map.
const MAX_ENTRIES: usize = 1000;

impl Check<'_> {
    pub fn check_tool_search(&mut self, given: &ToolSearch) {
        for path in given.endpoints.keys() {
            if !is_endpoint(path) {
                self.error(
                    &["tool_search", "endpoints", path],
                    "is not the path of an endpoint",
                    "use /mcp, /servers/NAME/mcp, /agents/ID/mcp or /endpoints/NAME/mcp",
                );
            }
        }
        let maps = [("endpoints", given.endpoints.len()), ("synonyms", given.synonyms.len())];
        for (name, entries) in maps {
            if entries > MAX_ENTRIES {
                let words = format!("must not have more than {MAX_ENTRIES} entries");
                self.error(&["tool_search", name], words, "remove some");
            }
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
