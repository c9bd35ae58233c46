//! Documents with which hosts find endpoints: server cards (SEP-2127), an AI catalog of the cards,
//! and pages of the registry API v0.1. They name neither tools nor addresses behind the gateway.

use lockgate_authn::Principal;
use lockgate_protocol::revision::Revision;
use serde_json::{Value, json};

use crate::config::{Discovery, Registry};
use crate::gateway::Gateway;
use crate::snapshot::Snapshot;

const CATALOG: &str = "/.well-known/ai-catalog.json";
const CARD: &str = "/server-card";
const CARD_SCHEMA: &str =
    "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json";
const CARD_TYPE: &str = "application/mcp-server-card+json";
const ENTRY_SCHEMA: &str =
    "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json";
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Descriptions of endpoints.
const ALL: &str = "All servers of the gateway";
const COMPOSED: &str = "Chosen tools of the gateway's servers";
const SERVER: &str = "A server behind the gateway";
/// Entries of a page of the registry: at most, and by default.
const MAX_ENTRIES: usize = 100;
const ENTRIES: usize = 30;

/// Parameters of a page of the registry, as text.
#[derive(Debug, Default)]
pub struct RegistryQuery {
    pub cursor: Option<String>,
    pub limit: Option<String>,
    pub search: Option<String>,
    pub version: Option<String>,
}

/// An endpoint in a document.
struct ListedEndpoint {
    /// The name in the namespace of the gateway's host.
    name: String,
    path: String,
    description: &'static str,
}

impl Gateway {
    /// Returns the public document at a path, if any.
    pub(crate) fn find_discovery(&self, snapshot: &Snapshot, path: &str) -> Option<String> {
        let discovery = snapshot.config.discovery.as_ref().filter(|settings| settings.cards)?;
        let path = path.strip_prefix(&*discovery.prefix).unwrap_or(path);
        let all = self.list_endpoints(snapshot, None);
        if path == CATALOG {
            return Some(discovery.catalog(&all).to_string());
        }
        let endpoint = path.strip_suffix(CARD)?;
        let found = all.iter().find(|listed| listed.path == endpoint)?;
        Some(discovery.card(found).to_string())
    }

    /// Returns whether endpoints are listed as a registry, and whether also for callers without
    /// credentials.
    pub fn registry(&self) -> Registry {
        let snapshot = self.snapshot();
        snapshot.config.discovery.as_ref().map_or(Registry::Off, |settings| settings.registry)
    }

    /// Returns a page of the registry with the endpoints of a caller, or the operator's.
    ///
    /// # Errors
    /// A description of an invalid parameter.
    pub fn list_registry(
        &self,
        caller: Option<&Principal>,
        query: &RegistryQuery,
    ) -> Result<Value, String> {
        let snapshot = self.snapshot();
        let all = self.list_endpoints(&snapshot, caller);
        match &snapshot.config.discovery {
            Some(discovery) => discovery.page(&all, query),
            None => Ok(json!({"servers": [], "metadata": {"count": 0}})),
        }
    }

    /// Returns a version of an entry of the registry.
    pub fn find_registered(
        &self,
        caller: Option<&Principal>,
        name: &str,
        version: &str,
    ) -> Option<Value> {
        let snapshot = self.snapshot();
        let discovery = snapshot.config.discovery.as_ref()?;
        let all = self.list_endpoints(&snapshot, caller);
        let found = all.iter().find(|listed| discovery.name(listed) == name)?;
        is_version(version).then(|| discovery.entry(found))
    }

    /// Returns the endpoints of a caller, or without one those of the operator.
    fn list_endpoints(
        &self,
        snapshot: &Snapshot,
        caller: Option<&Principal>,
    ) -> Vec<ListedEndpoint> {
        let mut all =
            vec![ListedEndpoint { name: "mcp".into(), path: "/mcp".into(), description: ALL }];
        for name in snapshot.config.endpoints.keys() {
            let path = format!("/endpoints/{name}/mcp");
            let name = format!("endpoints.{name}");
            all.push(ListedEndpoint { name, path, description: COMPOSED });
        }
        let servers = caller.map_or_else(|| self.servers(), |caller| self.visible_servers(caller));
        for server in servers {
            let slug = server.slug();
            let path = format!("/servers/{slug}/mcp");
            all.push(ListedEndpoint { name: format!("servers.{slug}"), path, description: SERVER });
        }
        all
    }
}

impl Discovery {
    fn url(&self, path: &str) -> String {
        format!("{}{}{path}", self.origin, self.prefix)
    }

    /// Returns the name of an endpoint: in reverse DNS form, `com.example/servers.github`.
    fn name(&self, listed: &ListedEndpoint) -> String {
        let host = self.host.trim_matches(['[', ']']).replace(':', "-");
        let labels: Vec<&str> = host.rsplit('.').collect();
        format!("{}/{}", labels.join("."), listed.name)
    }

    fn catalog(&self, all: &[ListedEndpoint]) -> Value {
        let entries = all.iter().map(|listed| {
            json!({
                "identifier": format!("urn:air:{}:{}", self.host, listed.name),
                "displayName": listed.name,
                "type": CARD_TYPE,
                "url": self.url(&format!("{}{CARD}", listed.path)),
            })
        });
        json!({"specVersion": "0.9", "entries": entries.collect::<Value>()})
    }

    fn card(&self, listed: &ListedEndpoint) -> Value {
        let mut card = self.describe(CARD_SCHEMA, listed);
        let versions = Revision::OFFERED.map(Revision::as_str);
        card["remotes"][0]["supportedProtocolVersions"] = json!(versions);
        card
    }

    fn entry(&self, listed: &ListedEndpoint) -> Value {
        json!({"server": self.describe(ENTRY_SCHEMA, listed), "_meta": {}})
    }

    fn describe(&self, schema: &str, listed: &ListedEndpoint) -> Value {
        json!({
            "$schema": schema,
            "name": self.name(listed),
            "version": VERSION,
            "description": listed.description,
            "remotes": [{"type": "streamable-http", "url": self.url(&listed.path)}],
        })
    }

    fn page(&self, all: &[ListedEndpoint], query: &RegistryQuery) -> Result<Value, String> {
        let limit = match query.limit.as_deref().map(str::parse::<usize>) {
            None => ENTRIES,
            Some(Ok(limit @ 1..=MAX_ENTRIES)) => limit,
            Some(_) => return Err(format!("limit must be a number from 1 to {MAX_ENTRIES}")),
        };
        let search = query.search.as_deref().unwrap_or("").to_lowercase();
        let mut matching: Vec<_> =
            all.iter().filter(|listed| self.name(listed).contains(&search)).collect();
        if !query.version.as_deref().is_none_or(is_version) {
            matching.clear();
        }
        // A cursor is the name of the last entry of the page before.
        let start = match &query.cursor {
            None => 0,
            Some(cursor) => match matching.iter().position(|listed| self.name(listed) == *cursor) {
                Some(last) => last + 1,
                None => return Err("the cursor is no longer valid; start without one".into()),
            },
        };
        let end = (start + limit).min(matching.len());
        let page = &matching[start..end];
        let entries: Vec<Value> = page.iter().map(|listed| self.entry(listed)).collect();
        let mut metadata = json!({"count": entries.len()});
        if let Some(last) = page.last().filter(|_| end < matching.len()) {
            metadata["nextCursor"] = self.name(last).into();
        }
        Ok(json!({"servers": entries, "metadata": metadata}))
    }
}

fn is_version(version: &str) -> bool {
    version == "latest" || version == VERSION
}

#[cfg(test)]
mod tests;
