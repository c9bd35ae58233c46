//! The merged catalog of all servers' tools, prompts, resources, templates and skills, and the
//! views of it per endpoint. Both are immutable and replaced on changes.

pub(crate) mod compose;
pub(crate) mod entry;
mod groups;
mod hidden;
mod keep;
mod layers;
pub(crate) mod management;
mod merge;
mod own;
pub(crate) mod rendered;
mod resources;
pub(crate) mod template;
mod tool_index;
mod view;
mod view_search;
mod views;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use lockgate_policy::pin::Pins;
use lockgate_protocol::capabilities::Offers;
use lockgate_protocol::name::{Naming, Slug};
use lockgate_telemetry::Metrics;
use lockgate_upstream::{ListKind, Status, Upstream, UpstreamState};

use crate::inspect::{self, KnownInspections};
use keep::keep_ms;
use merge::{Merger, ServerLists};
use views::Views;

pub(crate) use entry::{Audience, CatalogEntry, ViewEntry, category, index, organisation_of};
pub(crate) use groups::Groups;
pub(crate) use hidden::Asking;
pub(crate) use layers::{Layers, Selection, Viewing};
pub(crate) use own::OwnRules;
pub(crate) use tool_index::{MAX_TEXT, ToolIndex};
pub(crate) use view::View;
pub(crate) use view_search::{Similar, ViewSearch};

pub(crate) type Servers = BTreeMap<Slug, Arc<dyn Upstream>>;

/// All servers' items under their exposed names, in list order.
pub(crate) struct Catalog {
    /// Incremented by each merge.
    pub(crate) version: u64,
    pub(crate) servers: Servers,
    items: [Vec<Arc<CatalogEntry>>; ListKind::COUNT],
    /// Tools that are hidden until an operator has reviewed them.
    quarantined: Vec<Arc<CatalogEntry>>,
    /// Skills likewise, with all files below them.
    quarantined_skills: Vec<Arc<CatalogEntry>>,
    tool_index: Arc<ToolIndex>,
    declared: BTreeMap<Slug, Declared>,
    pub(crate) views: Views,
}

/// A server's declarations and status at the time of the merge.
#[derive(Clone)]
struct Declared {
    offers: Offers,
    /// JSON text of its extensions.
    extensions: Option<Bytes>,
    instructions: Option<Arc<str>>,
    status: Arc<Status>,
    version: u64,
    /// When its lists were read, if an earlier process did so.
    read_at: Option<SystemTime>,
    /// How long its lists may be cached, in milliseconds; `None` if there are none.
    keep_ms: Option<u64>,
}

impl Declared {
    /// Returns the offered features: all of them until the server has been listed.
    fn offers(&self) -> Offers {
        let unknown = self.version == 0 && self.status.state != UpstreamState::Disabled;
        let all = Offers {
            tools: true,
            prompts: true,
            resources: true,
            completions: true,
            ..self.offers
        };
        if unknown { all } else { self.offers }
    }

    /// Returns whether the server still has the same lists and visible status.
    fn is_still_said_by(&self, server: &dyn Upstream) -> bool {
        let status = server.status();
        let catalog = server.catalog();
        self.version == catalog.version
            && self.read_at == catalog.read_at
            && self.keep_ms == keep_ms(&catalog, &status)
            && looks_the_same(&self.status, &status)
    }
}

/// Returns whether two statuses are indistinguishable to clients.
fn looks_the_same(one: &Status, other: &Status) -> bool {
    let same_trouble = match (&one.trouble, &other.trouble) {
        (Some(one), Some(other)) => one.stage == other.stage && one.reason() == other.reason(),
        (one, other) => one.is_none() && other.is_none(),
    };
    let same_era = match (&one.peer, &other.peer) {
        (Some(one), Some(other)) => one.era == other.era,
        (one, other) => one.is_none() && other.is_none(),
    };
    one.state == other.state && same_trouble && same_era
}

fn is_quarantined(entry: &mut Arc<CatalogEntry>) -> bool {
    matches!(&entry.inspected, Some(inspected) if inspected.quarantined)
}

fn read_declared(
    server: &dyn Upstream,
    catalog: &lockgate_upstream::Catalog,
    pins: &Pins,
) -> Declared {
    let instructions = catalog.instructions.as_ref().map(|text| inspect::instructions(text, pins));
    let status = server.status();
    let keep_ms = keep_ms(catalog, &status);
    Declared {
        offers: catalog.offers,
        extensions: catalog.extensions.clone(),
        instructions,
        status,
        version: catalog.version,
        read_at: catalog.read_at,
        keep_ms,
    }
}

impl Catalog {
    pub(crate) fn merge(
        servers: Servers,
        naming: Naming,
        pins: &Pins,
        before: Option<&Self>,
        metrics: &Metrics,
    ) -> Self {
        let mut known = KnownInspections::default();
        if let Some(before) = before {
            for entry in before.pinned() {
                if let Some(inspected) = &entry.inspected {
                    known.add(&entry.slug, &entry.item.key, inspected);
                }
            }
        }
        let merger = Merger { naming, pins, metrics, known };
        let mut lists = Vec::with_capacity(servers.len());
        for (slug, server) in &servers {
            lists.push(ServerLists { slug, server, lists: server.catalog() });
        }
        let mut items = ListKind::ALL.map(|kind| merger.merge_lists(kind, &lists));
        let quarantined = items[index(ListKind::Tools)].extract_if(.., is_quarantined).collect();
        let quarantined_skills =
            items[index(ListKind::Skills)].extract_if(.., is_quarantined).collect();
        let mut declared = BTreeMap::new();
        for ServerLists { slug, server, lists } in &lists {
            declared.insert((*slug).clone(), read_declared(&***server, lists, pins));
        }
        drop(lists);
        let version = before.map_or(0, |before| before.version + 1);
        let tool_index = ToolIndex::new(&items[index(ListKind::Tools)]);
        let views = Views::default();
        Self {
            version,
            servers,
            items,
            quarantined,
            quarantined_skills,
            tool_index,
            declared,
            views,
        }
    }

    /// Returns all tools and skills, including quarantined ones.
    pub(crate) fn pinned(&self) -> impl Iterator<Item = &Arc<CatalogEntry>> {
        let shown = self.items(ListKind::Tools).iter().chain(self.items(ListKind::Skills));
        shown.chain(&self.quarantined).chain(&self.quarantined_skills)
    }

    pub(crate) fn quarantined(&self, slug: &Slug) -> usize {
        let all = self.quarantined.iter().chain(&self.quarantined_skills);
        all.filter(|entry| entry.slug == *slug).count()
    }

    pub(crate) fn items(&self, kind: ListKind) -> &[Arc<CatalogEntry>] {
        &self.items[index(kind)]
    }

    pub(crate) fn merged_version(&self, slug: &str) -> Option<u64> {
        Some(self.declared.get(slug)?.version)
    }

    /// Returns whether the catalog was merged from exactly these servers.
    pub(crate) fn is_of(&self, servers: &Servers) -> bool {
        if self.servers.len() != servers.len() {
            return false;
        }
        for ((slug, old), (other, new)) in self.servers.iter().zip(servers) {
            if slug != other || !Arc::ptr_eq(old, new) {
                return false;
            }
        }
        true
    }

    /// Returns whether merging these servers now would give the same catalog.
    pub(crate) fn reflects(&self, servers: &Servers) -> bool {
        if !self.is_of(servers) {
            return false;
        }
        for (slug, server) in servers {
            match self.declared.get(slug) {
                Some(declared) if declared.is_still_said_by(&**server) => {}
                _ => return false,
            }
        }
        true
    }
}
