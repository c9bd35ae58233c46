//! Merges the items of all servers under their exposed names, in list order, and the items of an
//! endpoint, chosen, renamed and described by the operator or an agent's owner.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use lockgate_policy::Annotations;
use lockgate_protocol::name::{Naming, Slug};
use lockgate_protocol::revision::Era;
use lockgate_protocol::{list, uri, write};
use lockgate_telemetry::Metrics;
use lockgate_upstream::{Catalog, Item, ListKind, Status, Upstream, UpstreamState};

use crate::catalog::entry::{Audience, CatalogEntry, ViewEntry, category, organisation_of};
use crate::config::Compose;
use crate::inspect::{self, ArgumentCheck, Inspector};

pub(super) struct ServerLists<'a> {
    pub(super) slug: &'a Slug,
    pub(super) server: &'a Arc<dyn Upstream>,
    pub(super) lists: Arc<Catalog>,
}

struct Offered<'a> {
    slug: &'a Slug,
    server: &'a Arc<dyn Upstream>,
    item: &'a Item,
    audience: Audience,
    /// Whether the server lists it for a single client.
    is_own: bool,
}

/// Makes the entries of catalogs.
pub(crate) struct Merger<'a> {
    pub(crate) naming: Naming,
    pub(crate) metrics: &'a Metrics,
    pub(crate) inspector: Inspector<'a>,
}

impl Merger<'_> {
    pub(super) fn merge_lists(
        &self,
        kind: ListKind,
        servers: &[ServerLists<'_>],
    ) -> Vec<Arc<CatalogEntry>> {
        let mut offered = Vec::new();
        for ServerLists { slug, server, lists } in servers {
            for item in lists.items(kind) {
                let audience = Audience::Everybody;
                offered.push(Offered { slug, server, item, audience, is_own: false });
            }
            let audience = match lists.asking_era {
                Some(Era::Legacy) => Audience::LegacyCanBeAsked,
                Some(Era::Modern) | None => Audience::CanBeAsked,
            };
            for item in lists.asking_items(kind) {
                offered.push(Offered { slug, server, item, audience, is_own: false });
            }
        }
        let exposed = self.expose(kind, &offered);
        let entries = offered.iter().zip(exposed);
        entries.map(|(offered, exposed)| self.make_entry(kind, offered, exposed.into())).collect()
    }

    fn expose(&self, kind: ListKind, offered: &[Offered<'_>]) -> Vec<String> {
        match kind {
            ListKind::Tools | ListKind::Prompts => {
                self.naming.expose(offered.iter().map(|one| (one.slug, &*one.item.key)))
            }
            ListKind::Resources | ListKind::Templates | ListKind::Skills => offered
                .iter()
                .map(|one| uri::expose(one.slug, &one.item.key).into_owned())
                .collect(),
        }
    }

    /// Returns an item that a server lists for a single client.
    pub(super) fn make_own_entry(
        &self,
        kind: ListKind,
        (slug, server): (&Slug, &Arc<dyn Upstream>),
        item: &Item,
        exposed: Arc<str>,
    ) -> Arc<CatalogEntry> {
        let audience = Audience::Everybody;
        self.make_entry(kind, &Offered { slug, server, item, audience, is_own: true }, exposed)
    }

    fn make_entry(
        &self,
        kind: ListKind,
        offered: &Offered<'_>,
        exposed: Arc<str>,
    ) -> Arc<CatalogEntry> {
        let Offered { slug, server, item, audience, is_own } = *offered;
        let category = category(&**server);
        let is_skill = kind == ListKind::Skills;
        let mut entry = CatalogEntry {
            slug: slug.clone(),
            server: Arc::clone(server),
            exposed,
            listed: None,
            // Hosts compare a skill with its files, so it is shown unchanged or not at all.
            item: if is_skill { item.clone() } else { inspect::shown(item, self.inspector.pins) },
            audience,
            metrics: None,
            inspected: None,
            arguments: None,
            category,
            annotations: Annotations::default(),
        };
        if is_skill || kind == ListKind::Tools {
            let is_builtin = entry.category.is_some();
            let inspected = self.inspector.inspect(&**server, item, is_builtin, is_skill);
            if let ArgumentCheck::Schema(schema) = &inspected.arguments {
                entry.arguments = Some(Arc::clone(schema));
            }
            entry.inspected = Some(inspected);
        }
        if kind == ListKind::Tools {
            let organisation = organisation_of(&**server);
            // Tools of single clients share a metric, to bound the number of metrics.
            entry.metrics = Some(if is_own {
                self.metrics.other_tools(organisation, slug)
            } else {
                self.metrics.tool(organisation, slug, &item.key)
            });
            entry.annotations = Annotations::of_tool(&item.text);
        }
        Arc::new(entry)
    }
}

/// Longest time in milliseconds for clients to cache a list. Subscribed clients are notified of
/// changes.
pub(crate) const KEEP_MS: u64 = 60_000;
/// Longest time in milliseconds for clients to cache a list that lacks a server.
pub(crate) const INCOMPLETE_KEEP_MS: u64 = 2_000;

/// Returns for how many milliseconds a server's lists may be cached: [`INCOMPLETE_KEEP_MS`] until
/// they have been read, then its TTL in the modern era, else `None` if they are empty, [`KEEP_MS`]
/// if the server announces changes, or 0.
pub(super) fn keep_ms(catalog: &Catalog, status: &Status) -> Option<u64> {
    if catalog.version == 0 && status.state != UpstreamState::Disabled {
        return Some(INCOMPLETE_KEEP_MS);
    }
    let is_builtin = matches!(&status.peer, Some(peer) if peer.transport == "builtin");
    let told = is_builtin || catalog.offers.list_changed;
    match &status.peer {
        Some(peer) if peer.era == Era::Modern && catalog.ttl_ms.is_some() => catalog.ttl_ms,
        _ if ListKind::ALL.iter().all(|kind| catalog.items(*kind).is_empty()) => None,
        _ => Some(if told { KEEP_MS } else { 0 }),
    }
}

/// The original of each name and alias, in lower case.
type Names = HashMap<String, String>;

/// Keeps the chosen entries of a list, under their names and descriptions at the endpoint. A name
/// that another visible item has, chosen or not, is not given.
pub(super) fn apply(compose: &Compose, kind: ListKind, naming: Naming, seen: &mut Vec<ViewEntry>) {
    let mut names = Names::new();
    if !kind.has_uris() && !compose.rename.is_empty() {
        names = names_of(seen.iter().map(|seen| &*seen.entry), naming);
    }
    let patterns = match kind {
        ListKind::Tools => &compose.tools,
        ListKind::Prompts => &compose.prompts,
        ListKind::Resources | ListKind::Templates | ListKind::Skills => &compose.resources,
    };
    seen.retain(|seen| {
        let entry = &seen.entry;
        patterns.fit(&[&entry.exposed, &entry.item.key, &original(entry)])
    });
    for seen in seen {
        let original = original(&seen.entry);
        let listed = compose.rename.get(&original).filter(|_| !kind.has_uris());
        let described = compose.describe.get(&original).filter(|_| kind != ListKind::Skills);
        let mut entry = CatalogEntry::clone(&seen.entry);
        if let Some(listed) = listed {
            if is_free(&mut names, listed, &original) {
                entry.listed = Some(listed.as_str().into());
            } else {
                tracing::warn!(tool = original, listed, "not renamed, because the name is taken");
            }
        }
        if let Some(text) = described
            && let Some(text) =
                list::with_member(&entry.item.text, "description", &write::quoted(text))
        {
            entry.item = Item { text: Bytes::from(text), ..entry.item };
        }
        if listed.is_some() || described.is_some() {
            seen.entry = Arc::new(entry);
        }
    }
}

/// Returns the names and aliases of items.
pub(crate) fn names_of<'a>(
    entries: impl Iterator<Item = &'a CatalogEntry>,
    naming: Naming,
) -> Names {
    let mut names = Names::new();
    for entry in entries {
        names.insert(entry.exposed.to_ascii_lowercase(), original(entry));
        for alias in naming.aliases(&entry.slug, &entry.item.key) {
            names.entry(alias.to_ascii_lowercase()).or_insert_with(|| original(entry));
        }
    }
    names
}

/// Returns whether a name is free for an item, which then has it.
pub(crate) fn is_free(names: &mut Names, name: &str, of: &str) -> bool {
    *names.entry(name.to_ascii_lowercase()).or_insert_with(|| of.to_owned()) == *of
}

fn original(entry: &CatalogEntry) -> String {
    format!("{}/{}", entry.slug, entry.item.key)
}
