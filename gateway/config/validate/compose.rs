//! `groups`, `endpoints`, `methods`, `discovery`, `tool_search` and `catalogue`: what clients see
//! of servers, and the servers that organisations may add.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lockgate_proxy::transport::Endpoint;
use lockgate_proxy::{
    Compose, Config, Discovery, EmbeddingServer, Group, ItemMistake, Registry, ToolSearch, is_name,
};
use lockgate_registry::{Auth, Catalogue, CatalogueEntry};
use url::Url;

use super::receivers::is_framing;
use super::{Check, is_local};
use crate::raw::{self, AuthMethod};

/// Groups, and likewise endpoints.
const MAX_ENTRIES: usize = 100;
const MAX_GROUPED: usize = 100;

impl Check<'_> {
    pub fn check_groups(&mut self) {
        self.entries("groups", self.root.groups.keys());
        for (name, group) in &self.root.groups {
            self.within("groups", name, |check| check.check_group(name, group));
        }
    }

    fn check_group(&mut self, name: &str, group: &Group) {
        let servers = &self.root.servers;
        if !(2..=MAX_GROUPED).contains(&group.servers.len()) {
            self.error("servers", format!("must name 2 to {MAX_GROUPED} servers"), "list them");
        }
        if group.servers.iter().any(|server| !servers.contains_key(server)) {
            let what = "names a server that is not in `servers`";
            self.error("servers", what, "name servers; a group cannot contain a group");
        }
        if servers.contains_key(name) {
            self.error("", "is the name of a server", "use a name of its own");
        }
        if !is_name(&group.argument) {
            let what = "must be 1 to 64 letters, digits, `_`, `-` and `.`";
            self.error("argument", what, "such as `cluster`");
        }
    }

    pub fn endpoints(&mut self) -> BTreeMap<String, Arc<Compose>> {
        let mut endpoints = BTreeMap::new();
        self.entries("endpoints", self.root.endpoints.keys());
        for (name, items) in &self.root.endpoints {
            let compose = items.check().unwrap_or_else(|mistakes| {
                for ItemMistake { member, key, what, fix } in mistakes {
                    let mut path = ["endpoints", name, member].map(str::to_owned).to_vec();
                    path.extend(key);
                    self.error_at(&path, what, fix);
                }
                Compose::default()
            });
            endpoints.insert(name.clone(), Arc::new(compose));
        }
        endpoints
    }

    pub fn methods(&mut self) -> BTreeSet<String> {
        let raw = &self.root.methods;
        self.at_most("methods", raw.len(), MAX_ENTRIES, "remove some");
        for method in raw {
            let is_plain = method.contains('/') && method.split('/').all(is_name);
            if !is_plain || Config::knows_method(method) {
                let what = "has an entry that is not the name of an unknown method";
                self.error("methods", what, "use names such as com.example/search");
            }
        }
        raw.iter().cloned().collect()
    }

    /// Checks the names and the number of the entries of a map.
    fn entries<'k>(&mut self, key: &str, names: impl ExactSizeIterator<Item = &'k String>) {
        self.at_most(key, names.len(), MAX_ENTRIES, "remove some");
        for name in names {
            self.entry_name(key, name, "rename it");
        }
    }
}

impl Check<'_> {
    /// Returns the settings with the public address; `None` if nothing is published.
    pub fn discovery(&mut self, public_url: Option<&Url>) -> Option<Discovery> {
        let given = &self.root.discovery;
        if !given.cards && given.registry == Registry::Off {
            return None;
        }
        let Some(url) = public_url else {
            let hint = "set it to the address at which clients reach the gateway";
            self.absent("http.public_url", "is required for `discovery`", hint);
            return None;
        };
        Some(Discovery {
            host: url.host_str().unwrap_or("localhost").to_owned(),
            origin: url.origin().ascii_serialization(),
            prefix: url.path().trim_end_matches('/').to_owned(),
            ..given.clone()
        })
    }
}

// `tool_search`: paths of endpoints, synonyms, and the server of embeddings.

/// Entries of each map.
const MAX_SEARCH_ENTRIES: usize = 1000;

impl Check<'_> {
    pub fn tool_search(&mut self) -> ToolSearch {
        let given = &self.root.tool_search;
        for path in given.endpoints.keys() {
            if Endpoint::parse(path).is_none() {
                let hint = "use /mcp, /servers/NAME/mcp, /agents/ID/mcp or /endpoints/NAME/mcp";
                let what = "is not the path of an endpoint";
                self.within("tool_search.endpoints", path, |check| check.error("", what, hint));
            }
        }
        for (key, entries) in [
            ("tool_search.endpoints", given.endpoints.len()),
            ("tool_search.synonyms", given.synonyms.len()),
        ] {
            self.at_most(key, entries, MAX_SEARCH_ENTRIES, "remove some");
        }
        let embeddings = given.embeddings.as_ref().map(|server| self.embeddings(server));
        ToolSearch { embeddings, ..given.clone() }
    }

    fn embeddings(&mut self, given: &EmbeddingServer) -> EmbeddingServer {
        let path = "tool_search.embeddings.url";
        let url = self.open_url(path, &given.url, "http://127.0.0.1:11434/v1/embeddings");
        if url.is_some_and(|url| url.scheme() == "http" && !is_local(&url)) {
            let what = "descriptions of tools and queries cross the network unencrypted";
            self.warning(path, what, "use https://");
        }
        if given.model.is_empty() {
            let hint = "set it to the name of a model of this server";
            self.absent("tool_search.embeddings.model", "is required", hint);
        }
        let path = "tool_search.embeddings.headers";
        let headers = self.headers_for_receiver(path, &given.headers, is_own_header);
        EmbeddingServer { headers, ..given.clone() }
    }
}

/// Returns whether the gateway sets a header itself.
fn is_own_header(name: &str) -> bool {
    is_framing(name) || matches!(name, "accept" | "accept-encoding" | "user-agent")
}

// `catalogue`: servers that organisations may add, with address and authentication.

/// The same maximum as for servers.
const MAX_CATALOGUE: usize = 256;
const TITLE_CHARS: usize = 100;
const DESCRIPTION_BYTES: usize = 1000;

impl Check<'_> {
    pub fn catalogue(&mut self) -> Catalogue {
        let raw = &self.root.catalogue;
        self.at_most("catalogue", raw.len(), MAX_CATALOGUE, "remove unused entries");
        let mut catalogue = Catalogue::new();
        for (slug, entry) in raw {
            self.entry_name("catalogue", slug, "rename it; set the display name in `title`");
            let checked =
                self.within("catalogue", slug, |check| check.catalogue_entry(slug, entry));
            catalogue.extend(checked.map(|checked| (slug.clone(), checked)));
        }
        catalogue
    }

    fn catalogue_entry(&mut self, slug: &str, raw: &raw::CatalogueEntry) -> Option<CatalogueEntry> {
        let title = raw.title.as_deref().map_or(slug, str::trim);
        if title.is_empty() || title.chars().count() > TITLE_CHARS {
            let what = format!("must have 1 to {TITLE_CHARS} characters");
            self.error("title", what, "use a short display name");
        }
        self.short("description", raw.description.as_deref(), DESCRIPTION_BYTES);
        let auth = self.catalogue_auth(raw);
        let Some(url) = &raw.url else {
            let hint = "such as https://mcp.example.com/mcp";
            self.absent("", "requires `url`", hint);
            return None;
        };
        let url = self.remote_url("url", url)?;
        Some(CatalogueEntry {
            title: title.to_owned(),
            description: raw.description.clone(),
            url,
            auth: auth?,
        })
    }

    fn catalogue_auth(&mut self, raw: &raw::CatalogueEntry) -> Option<Auth> {
        let auth = match (raw.auth, raw.header.clone()) {
            (AuthMethod::UserHeaders, header) => Auth::UserHeaders { header },
            (AuthMethod::ApiKey, Some(header)) => Auth::ApiKey { header },
            (AuthMethod::None, None) => Auth::None,
            (AuthMethod::BearerToken, None) => Auth::BearerToken,
            (AuthMethod::User, None) => Auth::User,
            (_, Some(_)) => {
                let what = "is only valid with `auth: api_key` and `user_headers`";
                self.error("header", what, "remove it");
                return None;
            }
            (AuthMethod::ApiKey, None) => {
                self.error("auth", "`api_key` requires `header`", "such as X-Api-Key");
                return None;
            }
        };
        auth.checked().map_err(|field| self.error("header", field.message, field.way_out)).ok()
    }
}
