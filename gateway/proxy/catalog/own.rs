//! Catalogs for clients with connections that list other items: these replace the server's shared
//! entries, under the same rules for names, pins and quarantine.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use lockgate_policy::pin::Pins;
use lockgate_protocol::name::{Naming, Slug};
use lockgate_protocol::uri;
use lockgate_telemetry::Metrics;
use lockgate_upstream::{ListKind, Upstream};

use super::entry::{CatalogEntry, index};
use super::merge::Merger;
use super::tool_index::ToolIndex;
use super::views::Views;
use super::{Catalog, is_quarantined};
use crate::inspect::KnownInspections;
use crate::own_lists::OwnDelta;

#[derive(Clone, Copy)]
pub(crate) struct OwnRules<'a> {
    pub(crate) naming: Naming,
    pub(crate) pins: &'a Pins,
    pub(crate) metrics: &'a Metrics,
}

impl Catalog {
    /// Returns the catalog with the lists of a client's own connections applied.
    pub(crate) fn with_own(&self, deltas: &[OwnDelta], rules: OwnRules<'_>) -> Self {
        let OwnRules { naming, pins, metrics } = rules;
        let merger = Merger { naming, pins, metrics, known: KnownInspections::default() };
        let mut changed = Self {
            version: self.version,
            servers: self.servers.clone(),
            items: self.items.clone(),
            quarantined: self.quarantined.clone(),
            quarantined_skills: self.quarantined_skills.clone(),
            tool_index: Arc::default(),
            declared: self.declared.clone(),
            views: Views::default(),
        };
        for delta in deltas {
            let found = self.servers.get_key_value(&*delta.server.slug);
            let Some((slug, server)) = found else { continue };
            if !delta.server.names(&**server) {
                continue;
            }
            for kind in ListKind::ALL {
                changed.apply(kind, delta, (slug, server), &merger);
            }
        }
        let tools = &mut changed.items[index(ListKind::Tools)];
        changed.quarantined.extend(tools.extract_if(.., is_quarantined));
        changed.tool_index = ToolIndex::new(tools);
        let skills = &mut changed.items[index(ListKind::Skills)];
        changed.quarantined_skills.extend(skills.extract_if(.., is_quarantined));
        changed
    }

    fn apply(
        &mut self,
        kind: ListKind,
        delta: &OwnDelta,
        (slug, server): (&Slug, &Arc<dyn Upstream>),
        merger: &Merger<'_>,
    ) {
        let added = delta.lists.added(kind);
        let removed = delta.lists.removed(kind);
        if added.is_empty() && removed.is_empty() {
            return;
        }
        let mut names = Names::new(self.all(kind), slug, kind);
        let items = &mut self.items[index(kind)];
        let mut gone: HashSet<&str> = HashSet::new();
        if delta.is_first {
            gone.extend(removed.iter().map(|key| &**key));
            gone.extend(added.iter().map(|item| &*item.key));
        }
        items.retain(|entry| entry.slug != *slug || !gone.contains(&*entry.item.key));
        let own = items.iter().filter(|entry| entry.slug == *slug);
        let left: HashSet<Arc<str>> = own.map(|entry| Arc::clone(&entry.item.key)).collect();
        let mut entries = Vec::with_capacity(added.len());
        for item in added {
            // A later connection adds only items that earlier connections do not have.
            if !left.contains(&item.key) {
                let exposed = names.expose(&item.key, merger.naming);
                entries.push(merger.make_own_entry(kind, (slug, server), item, exposed));
            }
        }
        let at = items.partition_point(|entry| entry.slug <= *slug);
        items.splice(at..at, entries);
    }

    /// Returns the entries of a list, including quarantined ones.
    fn all(&self, kind: ListKind) -> impl Iterator<Item = &Arc<CatalogEntry>> {
        let quarantined: &[Arc<CatalogEntry>] = match kind {
            ListKind::Tools => &self.quarantined,
            ListKind::Skills => &self.quarantined_skills,
            _ => &[],
        };
        self.items(kind).iter().chain(quarantined)
    }
}

/// The exposed names of a list, for naming further items of a server.
struct Names<'a> {
    slug: &'a Slug,
    kind: ListKind,
    /// Names of the server's own items, by key.
    known: HashMap<Arc<str>, Arc<str>>,
    taken: HashSet<String>,
}

impl<'a> Names<'a> {
    fn new<'e>(
        all: impl Iterator<Item = &'e Arc<CatalogEntry>>,
        slug: &'a Slug,
        kind: ListKind,
    ) -> Self {
        let mut names = Self { slug, kind, known: HashMap::new(), taken: HashSet::new() };
        for entry in all {
            names.taken.insert(entry.exposed.to_ascii_lowercase());
            if entry.slug == *slug {
                names.known.insert(Arc::clone(&entry.item.key), Arc::clone(&entry.exposed));
            }
        }
        names
    }

    /// Returns an item's name: that of the shared item that it replaces, or a name that is not
    /// taken.
    fn expose(&mut self, key: &str, naming: Naming) -> Arc<str> {
        if let Some(known) = self.known.get(key) {
            return Arc::clone(known);
        }
        if self.kind.has_uris() {
            return uri::expose(self.slug, key).into();
        }
        let exposed = naming.expose(std::iter::once((self.slug, key))).pop();
        match exposed {
            Some(exposed) if self.taken.insert(exposed.to_ascii_lowercase()) => exposed.into(),
            _ => naming.expose_distinct(self.slug, key).into(),
        }
    }
}
