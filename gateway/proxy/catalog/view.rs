//! The part of the catalog that a class of callers sees at an endpoint, and the cache of these
//! views. Names are looked up, never parsed.

use std::collections::{BTreeMap, HashMap};
use std::mem::discriminant;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use ahash::AHashMap;
use lockgate_policy::Policy;
use lockgate_protocol::capabilities::Offers;
use lockgate_protocol::method::Method;
use lockgate_protocol::name::Slug;
use lockgate_upstream::{Announcement, ListKind, ServerId, Upstream};
use parking_lot::RwLock;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::catalog::entry::{Audience, CatalogEntry, ListMarks, Rendered, ViewEntry, index};
use crate::catalog::groups::Groups;
use crate::catalog::tool_index::ViewSearch;
use crate::config::Compose;
use crate::rights::CallerRights;
use crate::transport::Endpoint;

/// Memory per entry in bytes, beside its name and text: its slots in the tables of names and lists.
const ENTRY_WEIGHT: usize = 512;
/// Memory per tool of a search index in bytes, rounded up from a measurement of 5,000 tools.
const INDEX_WEIGHT: usize = 1200;
/// Memory of an empty view in bytes.
const VIEW_WEIGHT: usize = 4 * 1024;

/// A server with lists that may be missing or out of date.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Degraded {
    pub(crate) server: String,
    pub(crate) state: &'static str,
    /// RFC 3339.
    pub(crate) since: String,
    pub(crate) reason: String,
    /// The offered features: all of them until the server has been listed.
    #[serde(skip)]
    pub(super) offers: Offers,
}

impl Degraded {
    /// Returns whether a list may lack entries of this server, or show them out of date.
    fn concerns(&self, kind: ListKind) -> bool {
        match kind {
            ListKind::Tools => self.offers.tools,
            ListKind::Prompts => self.offers.prompts,
            _ => self.offers.resources,
        }
    }
}

/// The catalog at an endpoint, filtered by policy.
pub struct View {
    /// Whether names and URIs carry the server's slug.
    pub(crate) namespaced: bool,
    pub servers: BTreeMap<Slug, Arc<dyn Upstream>>,
    pub(crate) items: [Vec<Arc<CatalogEntry>>; ListKind::COUNT],
    /// Tools and prompts by name, including aliases.
    pub(super) names: [AHashMap<Box<str>, ViewEntry>; 2],
    /// Servers of resources that keep their own URI (`http`, `https`).
    pub(super) web: HashMap<Box<str>, Slug>,
    /// Whether calls may contain or select other calls: because of `search` or `groups`.
    pub unwraps: bool,
    /// Whether any tool maps arguments to headers.
    pub(crate) has_param_headers: bool,
    /// Tools of several servers that appear as one.
    pub(crate) groups: Option<Box<Groups>>,
    /// Limits the resources of an endpoint with chosen items.
    pub(super) compose: Option<Arc<Compose>>,
    /// Quarantined skills, with all files below them.
    pub(super) quarantined_skills: Vec<Arc<CatalogEntry>>,
    pub offers: Offers,
    /// Extensions that servers declare, which the gateway forwards.
    pub extensions: Map<String, Value>,
    pub(crate) instructions: Vec<(Slug, Arc<str>)>,
    pub(crate) degraded: Vec<Degraded>,
    /// Search in place of a full list of tools.
    pub search: Option<Box<ViewSearch>>,
    /// Shortest cache lifetime of the servers' lists, in milliseconds.
    pub(crate) keep_ms: u64,
    pub(crate) rendered: Rendered,
    pub(super) marks: [OnceLock<ListMarks>; Audience::COUNT],
    /// The policy and rights of the class of callers that share the view.
    pub(super) policy: Arc<Policy>,
    pub(super) rights: CallerRights,
}

impl View {
    pub(crate) fn tool(&self, name: &str) -> Option<&ViewEntry> {
        self.names[0].get(name)
    }

    pub(crate) fn prompt(&self, name: &str) -> Option<&ViewEntry> {
        self.names[1].get(name)
    }

    /// Returns the tool or prompt of this name, as a method needs it.
    pub(crate) fn named(&self, method: Method, name: &str) -> Option<&ViewEntry> {
        match method {
            Method::ToolsCall => self.tool(name),
            Method::PromptsGet => self.prompt(name),
            _ => None,
        }
    }

    /// Returns the name or URI of an entry at this endpoint.
    pub(crate) fn shown<'a>(&self, entry: &'a CatalogEntry) -> &'a Arc<str> {
        entry.shown(self.namespaced)
    }

    /// Returns the name or URI of an entry in records: that of `/mcp`, or at a server's endpoint
    /// the server's own.
    pub(crate) fn recorded<'a>(&self, entry: &'a CatalogEntry) -> &'a Arc<str> {
        if self.namespaced { &entry.exposed } else { &entry.item.key }
    }

    /// Returns whether a listed tool is of a server, or of a group, of this name.
    pub(crate) fn is_of(&self, entry: &CatalogEntry, server: &str) -> bool {
        let groups = self.groups.as_ref();
        match groups.and_then(|groups| groups.tool(self.shown(entry))) {
            Some(group) => group.is_of(server),
            None => *entry.slug == *server,
        }
    }

    /// Returns the tools as listed: those of a group are one.
    pub(crate) fn listed_tools(&self) -> &[Arc<CatalogEntry>] {
        self.groups.as_ref().map_or(&self.items[index(ListKind::Tools)], |groups| &groups.listed)
    }

    /// Returns a list's entries for clients of an audience.
    pub(crate) fn entries(
        &self,
        kind: ListKind,
        client: Audience,
    ) -> impl Iterator<Item = &Arc<CatalogEntry>> {
        self.items[index(kind)].iter().filter(move |entry| entry.audience.includes(client))
    }

    /// Returns the server if it is visible here.
    pub fn server(&self, id: &ServerId) -> Option<&Arc<dyn Upstream>> {
        let server = self.servers.get(&*id.slug)?;
        if id.names(&**server) { Some(server) } else { None }
    }

    /// Returns whether a server's list has visible entries, or is empty for now.
    pub(crate) fn lists_of(&self, id: &ServerId, kind: ListKind) -> bool {
        let Some(server) = self.server(id) else { return false };
        let slug = &*id.slug;
        ListKind::ALL.iter().any(|one| one.announced_as() == kind && self.has_entries(slug, *one))
            || server.catalog().items(kind).is_empty()
    }

    /// Returns the lists of a view that servers announced as changed, to the sessions selected by
    /// `is_meant` (`None` means all sessions). An announcement is ignored if the view shows none of
    /// that server's items in the list.
    pub fn announced_lists(
        view: Option<&Self>,
        announced: &[Announcement],
        is_meant: impl Fn(Option<u64>) -> bool,
    ) -> Vec<ListKind> {
        let mut lists = Vec::new();
        let Some(view) = view else { return lists };
        for announcement in announced.iter().filter(|one| is_meant(one.session)) {
            for kind in &announcement.lists {
                if !lists.contains(kind) && view.lists_of(&announcement.server, *kind) {
                    lists.push(*kind);
                }
            }
        }
        lists
    }

    /// Returns whether a resource is below a listed skill.
    pub(crate) fn has_skill_of(&self, server: &dyn Upstream, own: &str) -> bool {
        self.items[index(ListKind::Skills)].iter().any(|skill| skill.covers(server, own))
    }

    fn has_entries(&self, slug: &str, kind: ListKind) -> bool {
        self.items[index(kind)].iter().any(|entry| entry.slug.as_str() == slug)
    }

    /// Returns the marks of the lists of clients of an audience.
    pub fn marks(&self, client: Audience) -> ListMarks {
        *self.marks[client as usize]
            .get_or_init(|| ListMarks(ListKind::ALL.map(|kind| self.mark(kind, client))))
    }

    fn mark(&self, kind: ListKind, client: Audience) -> u64 {
        let mut hasher = blake3::Hasher::new();
        if kind == ListKind::Tools && self.search.is_some() {
            hasher.update(b"search");
        }
        // The degraded servers and their states are part of a list; reasons and times are not.
        for degraded in &self.degraded {
            if !degraded.concerns(kind) {
                continue;
            }
            for part in [&degraded.server, degraded.state] {
                hasher.update(&part.len().to_le_bytes());
                hasher.update(part.as_bytes());
            }
        }
        for entry in self.entries(kind, client) {
            for part in [self.shown(entry).as_bytes(), &entry.item.text] {
                hasher.update(&part.len().to_le_bytes());
                hasher.update(part);
            }
        }
        let mut mark = [0; 8];
        hasher.finalize_xof().fill(&mut mark);
        u64::from_le_bytes(mark)
    }

    /// Estimates the view's memory beside the catalog, in bytes: slots in several tables for each
    /// entry, and the entry's text once more in the serialised pages.
    fn weight(&self) -> usize {
        let mut weight = VIEW_WEIGHT;
        for entry in self.items.iter().flatten() {
            weight += ENTRY_WEIGHT + 4 * entry.exposed.len() + entry.item.text.len();
        }
        if self.search.is_some() {
            weight += INDEX_WEIGHT * self.items[index(ListKind::Tools)].len();
        }
        weight
    }
}

// Cache of the views of the operator's catalog, alone or combined with that of an organisation,
// built on first use. A view is dropped when either catalog is replaced. The memory is bounded,
// and the least recently used view is evicted first.

/// Limit on each of: the views of the operator's servers alone, those of all organisations, and
/// those of clients with their own lists. In bytes, as estimated by [`View::weight`].
const MAX_WEIGHT: usize = 64 * 1024 * 1024;

pub(crate) struct Views {
    kept: RwLock<KeptViews>,
    uses: AtomicU64,
    max_weight: usize,
}

impl Default for Views {
    fn default() -> Self {
        Self { kept: RwLock::default(), uses: AtomicU64::new(0), max_weight: MAX_WEIGHT }
    }
}

/// What a view is built from, beside the operator's catalog.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum ViewLayer {
    Shared,
    /// An organisation's servers, by the number of the organisation's state.
    Own(u64),
    /// The lists of the caller's own connections, and the servers of its organisation, if any.
    OfClient(Option<u64>),
}

#[derive(Default)]
struct KeptViews {
    shared: Layer,
    /// The others. Those of organisations share a limit, and so do those of clients.
    owned: AHashMap<ViewLayer, Layer>,
}

/// Views built from the same catalogs.
#[derive(Default)]
struct Layer {
    by_endpoint: AHashMap<Endpoint, AHashMap<[u8; 16], KeptView>>,
    weight: usize,
}

struct KeptView {
    view: Arc<View>,
    weight: usize,
    used: AtomicU64,
}

impl Views {
    /// Returns the cached view at an endpoint, by the mark of a class of callers, or of class and
    /// lists.
    pub(crate) fn get(
        &self,
        of: ViewLayer,
        endpoint: &Endpoint,
        mark: [u8; 16],
    ) -> Option<Arc<View>> {
        let kept = self.kept.read();
        let layer = match of {
            ViewLayer::Shared => &kept.shared,
            owner => kept.owned.get(&owner)?,
        };
        let found = layer.by_endpoint.get(endpoint)?.get(&mark)?;
        found.used.store(self.count_use(), Ordering::Relaxed);
        Some(Arc::clone(&found.view))
    }

    /// Keeps a view, if the organisation's state that it includes is still current. Returns the
    /// existing view if another caller of the class has stored one first.
    pub(crate) fn keep(
        &self,
        of: ViewLayer,
        is_current: impl FnOnce() -> bool,
        at: (&Endpoint, [u8; 16]),
        view: View,
    ) -> Arc<View> {
        let mut kept = self.kept.write();
        // Checked under the lock: a change of the organisation drops its views under the same lock.
        if !is_current() {
            return Arc::new(view);
        }
        let used = self.count_use();
        match of {
            ViewLayer::Shared => kept.shared.keep_within(self.max_weight, at, view, used),
            owner => kept.keep_within(self.max_weight, owner, at, view, used),
        }
    }

    /// Drops the views that include an organisation's previous state.
    pub(crate) fn forget(&self, own: u64) {
        let mut kept = self.kept.write();
        kept.owned.remove(&ViewLayer::Own(own));
        kept.owned.remove(&ViewLayer::OfClient(Some(own)));
    }

    /// Drops all views, because policy or naming has changed.
    pub(crate) fn clear(&self) {
        *self.kept.write() = KeptViews::default();
    }

    fn count_use(&self) -> u64 {
        self.uses.fetch_add(1, Ordering::Relaxed)
    }
}

impl KeptViews {
    /// Keeps a view of an owner. To make room, evicts views of the heaviest owner of the kind, so
    /// that all get a share of the memory, unless the newcomer is the heaviest and has no view to
    /// evict.
    fn keep_within(
        &mut self,
        max: usize,
        owner: ViewLayer,
        at: (&Endpoint, [u8; 16]),
        view: View,
        used: u64,
    ) -> Arc<View> {
        let weight = view.weight();
        loop {
            let mut total = weight;
            let mut heaviest = (weight, None);
            for (other, layer) in &self.owned {
                if discriminant(other) == discriminant(&owner) {
                    let added = if *other == owner { weight } else { 0 };
                    heaviest = heaviest.max((layer.weight + added, Some(*other)));
                    total += layer.weight;
                }
            }
            if total <= max {
                return self.owned.entry(owner).or_default().insert(at, view, weight, used);
            }
            let (_, Some(heaviest)) = heaviest else { return Arc::new(view) };
            let Some(layer) = self.owned.get_mut(&heaviest) else { return Arc::new(view) };
            layer.drop_least_used();
            if layer.by_endpoint.is_empty() {
                self.owned.remove(&heaviest);
            }
        }
    }
}

impl Layer {
    /// Keeps a view, whatever it takes; evicts others to make room.
    fn keep_within(
        &mut self,
        max: usize,
        at: (&Endpoint, [u8; 16]),
        view: View,
        used: u64,
    ) -> Arc<View> {
        let weight = view.weight();
        while self.weight + weight > max && self.drop_least_used() > 0 {}
        self.insert(at, view, weight, used)
    }

    fn insert(
        &mut self,
        (endpoint, class): (&Endpoint, [u8; 16]),
        view: View,
        weight: usize,
        used: u64,
    ) -> Arc<View> {
        if let Some(classes) = self.by_endpoint.get(endpoint)
            && let Some(known) = classes.get(&class)
        {
            return Arc::clone(&known.view);
        }
        let view = Arc::new(view);
        let entry = KeptView { view: Arc::clone(&view), weight, used: AtomicU64::new(used) };
        self.weight += weight;
        self.by_endpoint.entry(endpoint.clone()).or_default().insert(class, entry);
        view
    }

    /// Evicts the least recently used view and returns its weight, or 0 if there is none.
    fn drop_least_used(&mut self) -> usize {
        let Some((endpoint, class)) = self.find_least_used() else { return 0 };
        let Some(classes) = self.by_endpoint.get_mut(&endpoint) else { return 0 };
        let Some(gone) = classes.remove(&class) else { return 0 };
        self.weight -= gone.weight;
        if classes.is_empty() {
            self.by_endpoint.remove(&endpoint);
        }
        gone.weight
    }

    fn find_least_used(&self) -> Option<(Endpoint, [u8; 16])> {
        let mut fewest = u64::MAX;
        let mut least_used = None;
        for (endpoint, classes) in &self.by_endpoint {
            for (class, kept) in classes {
                let used = kept.used.load(Ordering::Relaxed);
                if used <= fewest {
                    fewest = used;
                    least_used = Some((endpoint, *class));
                }
            }
        }
        let (endpoint, class) = least_used?;
        Some((endpoint.clone(), class))
    }
}

#[cfg(test)]
mod tests;
