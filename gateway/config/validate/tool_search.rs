//! `tool_search`: paths of endpoints, synonyms, and the server of embeddings.

use lockgate_proxy::{EmbeddingServer, ToolSearch};

use super::headers::is_framing;
use super::{Check, is_local, parse_open_url};
use crate::raw::leaf::Text;

/// Entries of each map.
const MAX_ENTRIES: usize = 1000;

impl Check<'_> {
    pub fn tool_search(&mut self, given: &ToolSearch) -> ToolSearch {
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
        let embeddings = given.embeddings.as_ref().map(|server| self.embeddings(server));
        ToolSearch { embeddings, ..given.clone() }
    }

    fn embeddings(&mut self, given: &EmbeddingServer) -> EmbeddingServer {
        let path = ["tool_search", "embeddings", "url"];
        match parse_open_url(&given.url) {
            Some(url) if url.scheme() == "http" && !is_local(&url) => {
                let what = "descriptions of tools and queries cross the network unencrypted";
                self.warning(&path, what, "use https://");
            }
            Some(_) => {}
            None if self.layers.damaged(&path) => {}
            None => {
                let what = "must be an http:// or https:// address without user and password";
                self.error(&path, what, "such as http://127.0.0.1:11434/v1/embeddings");
            }
        }
        let path = ["tool_search", "embeddings", "model"];
        if given.model.is_empty() && !self.layers.damaged(&path) {
            self.error(&path, "is required", "set it to the name of a model of this server");
        }
        let headers = given.headers.clone().into_iter();
        let headers = headers.map(|(name, value)| (name, Text(value))).collect();
        let path = ["tool_search", "embeddings", "headers"];
        let headers = self.headers_for_receiver(&path, &headers, is_own_header);
        EmbeddingServer { headers, ..given.clone() }
    }
}

/// Returns whether the gateway sets a header itself.
fn is_own_header(name: &str) -> bool {
    is_framing(name) || matches!(name, "accept" | "accept-encoding" | "user-agent")
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
