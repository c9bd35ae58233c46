//! The merged catalog of all servers' tools, prompts, resources, templates and skills, and the
//! views of it per endpoint. Both are immutable and replaced on changes.

pub mod entry;
mod groups;
pub(crate) mod layers;
pub(crate) mod merge;
pub(crate) mod template;
pub(crate) mod tool_index;
mod view;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use lockgate_policy::pin::Pins;
use lockgate_policy::{Policy, Target, TargetKind};
use lockgate_protocol::capabilities::Offers;
use lockgate_protocol::name::{Naming, Slug};
use lockgate_protocol::uri;
use lockgate_telemetry::Metrics;
use lockgate_upstream::{ListKind, Status, Upstream, UpstreamState};

pub(crate) use entry::{
    Audience, CatalogEntry, ViewEntry, category, index, is_legacy, organisation_of, unlisted_target,
};
pub(crate) use groups::Groups;
pub(crate) use layers::{Layers, Selection, Viewing};
pub(crate) use merge::Merger;
use merge::{ServerLists, keep_ms};
pub(crate) use tool_index::{MAX_TEXT, Similar, ToolIndex, ViewSearch};
pub use view::View;
pub(crate) use view::ViewLayer;
use view::Views;

use crate::inspect::{self, Inspector};
use crate::own_lists::OwnDelta;
use crate::rights::CallerRights;
use crate::transport::Endpoint;

/// Rule name that is recorded for quarantined tools.
const QUARANTINE: &str = "pins";

pub(crate) type Servers = BTreeMap<Slug, Arc<dyn Upstream>>;

/// All servers' items under their exposed names, in list order.
pub struct Catalog {
    /// Incremented by each merge.
    pub(crate) version: u64,
    pub(crate) servers: Servers,
    items: [Vec<Arc<CatalogEntry>>; ListKind::COUNT],
    /// Tools, and skills with all files below them, that are hidden until an operator has reviewed
    /// them.
    quarantined: [Vec<Arc<CatalogEntry>>; ListKind::COUNT],
    tool_index: Arc<ToolIndex>,
    declared: BTreeMap<Slug, Declared>,
    pub(crate) views: Views,
}

/// A server's declarations and status at the time of the merge.
#[derive(Clone)]
struct Declared {
    // Copies: a reference to the server's lists would keep their memory after their eviction.
    offers: Offers,
    /// JSON text of its extensions.
    extensions: Option<Bytes>,
    /// As clients see them.
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
        let offers = self.offers;
        if self.version > 0 || self.status.state == UpstreamState::Disabled {
            return offers;
        }
        Offers { tools: true, prompts: true, resources: true, completions: true, ..offers }
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
    lists: &lockgate_upstream::Catalog,
    pins: &Pins,
) -> Declared {
    let instructions = lists.instructions.as_ref().map(|text| inspect::instructions(text, pins));
    let status = server.status();
    let keep_ms = keep_ms(lists, &status);
    Declared {
        offers: lists.offers,
        extensions: lists.extensions.clone(),
        instructions,
        status,
        version: lists.version,
        read_at: lists.read_at,
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
        let mut inspector = Inspector::new(pins);
        if let Some(before) = before {
            for entry in before.pinned() {
                if let Some(inspected) = &entry.inspected {
                    inspector.add(&entry.slug, &entry.item.key, inspected);
                }
            }
        }
        let merger = Merger { naming, metrics, inspector };
        let lists = servers.iter();
        let lists: Vec<_> = lists
            .map(|(slug, server)| ServerLists { slug, server, lists: server.catalog() })
            .collect();
        let mut items = ListKind::ALL.map(|kind| merger.merge_lists(kind, &lists));
        let quarantined =
            items.each_mut().map(|list| list.extract_if(.., is_quarantined).collect());
        let read = lists.iter().map(|ServerLists { slug, server, lists }| {
            ((*slug).clone(), read_declared(&***server, lists, pins))
        });
        let declared = read.collect();
        drop(lists);
        let version = before.map_or(0, |before| before.version + 1);
        let tool_index = ToolIndex::new(&items[index(ListKind::Tools)]);
        let views = Views::default();
        Self { version, servers, items, quarantined, tool_index, declared, views }
    }

    /// Returns all tools and skills, including quarantined ones.
    pub(crate) fn pinned(&self) -> impl Iterator<Item = &Arc<CatalogEntry>> {
        let shown = self.items(ListKind::Tools).iter().chain(self.items(ListKind::Skills));
        shown.chain(self.quarantined.iter().flatten())
    }

    pub(crate) fn quarantined(&self, slug: &Slug) -> usize {
        let all = self.quarantined.iter().flatten();
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
        let mut pairs = self.servers.iter().zip(servers);
        pairs.all(|((slug, old), (other, new))| slug == other && Arc::ptr_eq(old, new))
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

    /// Returns the catalog with the lists of a client's own connections applied.
    pub(crate) fn with_own(&self, deltas: &[OwnDelta], merger: &Merger<'_>) -> Self {
        let mut changed = Self {
            version: self.version,
            servers: self.servers.clone(),
            items: self.items.clone(),
            quarantined: self.quarantined.clone(),
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
                changed.apply(kind, delta, (slug, server), merger);
            }
        }
        for (list, quarantined) in changed.items.iter_mut().zip(&mut changed.quarantined) {
            quarantined.extend(list.extract_if(.., is_quarantined));
        }
        changed.tool_index = ToolIndex::new(changed.items(ListKind::Tools));
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
        self.items(kind).iter().chain(&self.quarantined[index(kind)])
    }

    /// Returns the server of an existing item and the rule that hides the item, if any.
    pub(crate) fn hides(
        &self,
        asking: &Asking<'_>,
        kind: TargetKind,
        name: &str,
    ) -> Option<(String, Arc<str>)> {
        match kind {
            TargetKind::Tool => {
                let mut quarantined = self.quarantined[index(ListKind::Tools)].iter();
                let entry = quarantined.find(|entry| asking.means(entry, name));
                let quarantined = entry.map(|entry| (qualified(entry), QUARANTINE.into()));
                self.hides_item(asking, ListKind::Tools, kind, name).or(quarantined)
            }
            TargetKind::Prompt | TargetKind::PromptCompletion => {
                self.hides_item(asking, ListKind::Prompts, kind, name)
            }
            TargetKind::Resource | TargetKind::ResourceCompletion => {
                self.hides_resource(asking, kind, name)
            }
        }
    }

    fn hides_item(
        &self,
        asking: &Asking<'_>,
        list: ListKind,
        kind: TargetKind,
        name: &str,
    ) -> Option<(String, Arc<str>)> {
        let mut found = None;
        // Visits all entries, so that the time taken reveals nothing about an entry.
        for entry in self.items(list) {
            if asking.means(entry, name) {
                let rule = asking.rule(&entry.target(kind));
                found = found.or(rule.map(|rule| (qualified(entry), rule)));
            }
        }
        found
    }

    /// Resources need not be listed: a URI on an existing server is enough.
    fn hides_resource(
        &self,
        asking: &Asking<'_>,
        kind: TargetKind,
        name: &str,
    ) -> Option<(String, Arc<str>)> {
        let (slug, own) = match &asking.rights.endpoint {
            Endpoint::Server(slug) => (slug.clone(), name.to_owned()),
            _ => match uri::own(name) {
                Some((slug, own)) => (slug.to_owned(), own.into_owned()),
                None => {
                    let mut all = self.items(ListKind::Resources).iter();
                    (all.find(|entry| *entry.exposed == *name)?.slug.to_string(), name.to_owned())
                }
            },
        };
        let (slug, server) = self.servers.get_key_value(&Slug::new(&slug).ok()?)?;
        uri::validate(&own, uri::MAX_URI).ok()?;
        let exposed = uri::expose(slug, &own);
        let category = category(&**server);
        let target = unlisted_target(kind, &**server, (&exposed, &own), category.as_deref());
        Some((server.qualified_name().into_owned(), asking.rule(&target)?))
    }
}

fn qualified(entry: &CatalogEntry) -> String {
    entry.server.qualified_name().into_owned()
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

/// A caller at an endpoint, and the policy that applies.
pub(crate) struct Asking<'a> {
    pub(crate) policy: &'a Policy,
    pub(crate) rights: &'a CallerRights,
    pub(crate) naming: Naming,
}

impl Asking<'_> {
    /// Returns whether the name, in any accepted spelling, refers to the entry at this endpoint.
    fn means(&self, entry: &CatalogEntry, name: &str) -> bool {
        let slug = &entry.slug;
        let own = &*entry.item.key;
        match &self.rights.endpoint {
            Endpoint::Server(only) => slug.as_str() == only && own == name,
            _ => {
                *entry.exposed == *name
                    || name.ends_with(own)
                        && self.naming.aliases(slug, own).any(|alias| alias == name)
            }
        }
    }

    fn rule(&self, target: &Target<'_>) -> Option<Arc<str>> {
        self.policy.hides(&self.rights.judge(self.policy, target))
    }
}
