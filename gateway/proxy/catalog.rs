//! The merged picture of every server's tools, prompts, resources and templates, and how the part
//! of it that may be seen at one endpoint is made. Both are immutable: a change makes a new one.

mod entry;
mod hidden;
mod keep;
pub(crate) mod mark;
mod merge;
pub(crate) mod rendered;
mod resources;
pub(crate) mod template;
mod view;
mod views;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;
use lockgate_policy::pin::Pins;
use lockgate_policy::{Kind, Policy};
use lockgate_protocol::capabilities::{Offers, merge_extensions};
use lockgate_protocol::name::{Naming, Slug};
use lockgate_telemetry::Metrics;
use lockgate_upstream::{ListKind, State, Status, Upstream};
use serde_json::Map;

pub(crate) use entry::{Audience, Entry, ViewEntry, category, index};
pub(crate) use hidden::Asking;
use keep::{KEEP_MS, keep_ms};
use merge::{Merger, ServerLists};
use view::Degraded;
pub(crate) use view::View;
use views::Views;

use crate::inspect::{self, Known};
use crate::rights::CallerRights;
use crate::transport::Endpoint;
use rendered::Rendered;

/// Every server by slug.
pub(crate) type Servers = BTreeMap<Slug, Arc<dyn Upstream>>;

/// All servers' items under their exposed names, in the order in which they are listed.
pub(crate) struct Catalog {
    /// Grows with every rebuild that changed something.
    pub(crate) version: u64,
    pub(crate) servers: Servers,
    items: [Vec<Arc<Entry>>; 4],
    /// Tools that nobody sees until an operator has looked at them.
    quarantined: Vec<Arc<Entry>>,
    /// What each server declared, and its instructions.
    declared: BTreeMap<Slug, Declared>,
    /// What callers see of it.
    pub(crate) views: Views,
}

/// What a server said of itself, and how it was, when the catalog was merged.
struct Declared {
    offers: Offers,
    /// JSON text of its extensions.
    extensions: Option<Bytes>,
    instructions: Option<Arc<str>>,
    status: Arc<Status>,
    version: u64,
    /// How long its lists keep, in milliseconds; unknown where it has none.
    keep_ms: Option<u64>,
}

impl Declared {
    /// What the server offers; everything, as long as it has never been asked.
    fn offers(&self) -> Offers {
        let unknown = self.version == 0 && self.status.state != State::Disabled;
        let all = Offers {
            tools: true,
            prompts: true,
            resources: true,
            completions: true,
            ..self.offers
        };
        if unknown { all } else { self.offers }
    }

    /// Whether a server has the same lists, and is as it was, as far as that shows to anybody.
    fn is_still_said_by(&self, server: &dyn Upstream) -> bool {
        let status = server.status();
        let catalog = server.catalog();
        let shows = |status: &Status| {
            (
                status.state,
                status.trouble.as_ref().map(|t| (t.stage, t.reason())),
                status.peer.as_ref().map(|p| p.era),
            )
        };
        self.version == catalog.version
            && self.keep_ms == keep_ms(&catalog, &status)
            && shows(&self.status) == shows(&status)
    }
}

fn is_quarantined(entry: &mut Arc<Entry>) -> bool {
    entry.inspected.as_ref().is_some_and(|inspected| inspected.quarantined)
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
        keep_ms,
    }
}

impl Catalog {
    /// Merges what the servers offer now.
    pub(crate) fn merge(
        servers: Servers,
        naming: Naming,
        pins: &Pins,
        before: Option<&Self>,
        metrics: &Metrics,
    ) -> Self {
        let mut inspected = Vec::new();
        for entry in before.into_iter().flat_map(Self::tools) {
            if let Some(known) = &entry.inspected {
                inspected.push((entry.slug.as_str(), &*entry.item.key, known));
            }
        }
        let merger = Merger { naming, pins, metrics, known: Known::of(inspected.into_iter()) };
        let lists: Vec<_> = servers
            .iter()
            .map(|(slug, server)| ServerLists { slug, server, lists: server.catalog() })
            .collect();
        let mut items = ListKind::ALL.map(|kind| merger.merge_lists(kind, &lists));
        let quarantined = items[index(ListKind::Tools)].extract_if(.., is_quarantined).collect();
        let mut declared = BTreeMap::new();
        for ServerLists { slug, server, lists } in &lists {
            declared.insert((*slug).clone(), read_declared(&***server, lists, pins));
        }
        drop(lists);
        let version = before.map_or(0, |before| before.version + 1);
        Self { version, servers, items, quarantined, declared, views: Views::default() }
    }

    /// All tools, quarantined ones too.
    pub(crate) fn tools(&self) -> impl Iterator<Item = &Arc<Entry>> {
        self.items(ListKind::Tools).iter().chain(&self.quarantined)
    }

    /// How many tools of a server are quarantined.
    pub(crate) fn quarantined(&self, slug: &Slug) -> usize {
        self.quarantined.iter().filter(|entry| entry.slug == *slug).count()
    }

    pub(crate) fn items(&self, kind: ListKind) -> &[Arc<Entry>] {
        &self.items[index(kind)]
    }

    /// The version of a server's lists that was merged.
    pub(crate) fn merged_version(&self, slug: &Slug) -> Option<u64> {
        self.declared.get(slug).map(|declared| declared.version)
    }

    /// Whether merging these servers now would give the same.
    pub(crate) fn reflects(&self, servers: &Servers) -> bool {
        let mut pairs = self.servers.iter().zip(servers);
        self.servers.len() == servers.len()
            && pairs.all(|((slug, old), (other, new))| {
                let said = || {
                    self.declared
                        .get(slug)
                        .is_some_and(|declared| declared.is_still_said_by(&**new))
                };
                slug == other && Arc::ptr_eq(old, new) && said()
            })
    }

    /// What a caller may see at `endpoint`; `None` when there is no such endpoint for it.
    pub(crate) fn view(
        &self,
        endpoint: &Endpoint,
        policy: &Arc<Policy>,
        rights: &CallerRights,
        naming: Naming,
    ) -> Option<View> {
        let only = match endpoint {
            Endpoint::All => None,
            Endpoint::Server(slug) => {
                Some(self.servers.keys().find(|known| known.as_str() == slug)?)
            }
        };
        let seen = ListKind::ALL.map(|kind| self.find_visible(kind, only, policy, rights));
        let servers = self.find_visible_servers(&seen, policy, rights);
        let servers = match only {
            // What has nothing for a caller is no endpoint for it.
            Some(only) if !servers.contains(only) => return None,
            Some(only) => BTreeSet::from([only]),
            None => servers,
        };
        Some(self.make_view(&seen, &servers, only.is_none(), (policy, rights, naming)))
    }

    /// The entries of a list that a caller may see, of all servers or of one.
    fn find_visible(
        &self,
        kind: ListKind,
        only: Option<&Slug>,
        policy: &Policy,
        rights: &CallerRights,
    ) -> Vec<ViewEntry> {
        let mut visible = Vec::new();
        for entry in self.items(kind) {
            if only.is_none_or(|only| *only == entry.slug) {
                visible.extend(judge_entry(policy, rights, kind, entry));
            }
        }
        visible
    }

    /// The servers that a caller may know of: those of which it sees something, and those without
    /// anything that policy lets it reach.
    fn find_visible_servers(
        &self,
        seen: &[Vec<ViewEntry>; 4],
        policy: &Policy,
        rights: &CallerRights,
    ) -> BTreeSet<&Slug> {
        let with_visible: HashSet<&Slug> =
            seen.iter().flatten().map(|seen| &seen.entry.slug).collect();
        let with_items: HashSet<&Slug> =
            self.items.iter().flatten().map(|entry| &entry.slug).collect();
        let mut servers = BTreeSet::new();
        for slug in self.servers.keys() {
            let is_empty = !with_items.contains(slug);
            if with_visible.contains(slug) || is_empty && policy.reaches(&rights.class, slug) {
                servers.insert(slug);
            }
        }
        servers
    }

    fn make_view(
        &self,
        seen: &[Vec<ViewEntry>; 4],
        here: &BTreeSet<&Slug>,
        namespaced: bool,
        (policy, rights, naming): (&Arc<Policy>, &CallerRights, Naming),
    ) -> View {
        let names = [ListKind::Tools, ListKind::Prompts];
        let mut view = View {
            namespaced,
            servers: BTreeMap::new(),
            items: seen
                .each_ref()
                .map(|seen| seen.iter().map(|seen| Arc::clone(&seen.entry)).collect()),
            names: names.map(|kind| names_of(&seen[index(kind)], namespaced, naming)),
            web: HashMap::new(),
            offers: Offers::default(),
            extensions: Map::new(),
            instructions: Vec::new(),
            degraded: Vec::new(),
            keep_ms: KEEP_MS,
            policy: Arc::clone(policy),
            rights: rights.clone(),
            rendered: Rendered::default(),
            marks: Default::default(),
        };
        for entry in &view.items[index(ListKind::Resources)] {
            if entry.exposed == entry.item.key {
                view.web.insert(Box::from(&*entry.exposed), entry.slug.clone());
            }
        }
        for (slug, server) in self.servers.iter().filter(|(slug, _)| here.contains(slug)) {
            view.servers.insert(slug.clone(), Arc::clone(server));
        }
        for (slug, declared) in self.declared.iter().filter(|(slug, _)| here.contains(slug)) {
            view.offers = view.offers.or(declared.offers());
            if let Some(extensions) = &declared.extensions {
                merge_extensions(&mut view.extensions, extensions);
            }
            if let Some(text) = &declared.instructions {
                view.instructions.push((slug.clone(), Arc::clone(text)));
            }
            view.degraded.extend(degraded(slug, declared));
            view.keep_ms = view.keep_ms.min(declared.keep_ms.unwrap_or(KEEP_MS));
        }
        view
    }
}

/// The entry with what policy says of it, unless policy hides it.
fn judge_entry(
    policy: &Policy,
    rights: &CallerRights,
    kind: ListKind,
    entry: &Arc<Entry>,
) -> Option<ViewEntry> {
    let kind = match kind {
        ListKind::Tools => Kind::Tool,
        ListKind::Prompts => Kind::Prompt,
        ListKind::Resources | ListKind::Templates => Kind::Resource,
    };
    let subject = rights.subject();
    let target = entry.target(kind);
    let verdict = policy.verdict(&rights.class, &rights.question(&subject, &target));
    if let Some(failure) = verdict.failure() {
        tracing::warn!(
            tool = &*entry.exposed,
            failure,
            "denied, because a policy could not be evaluated"
        );
    }
    verdict.is_visible().then(|| ViewEntry { entry: Arc::clone(entry), verdict: Arc::new(verdict) })
}

fn degraded(slug: &Slug, declared: &Declared) -> Option<Degraded> {
    let status = &declared.status;
    if matches!(status.state, State::Connected | State::Disabled) {
        return None;
    }
    Some(Degraded {
        server: slug.to_string(),
        state: status.state.as_str(),
        since: status.since_text(),
        // The words may name commands and addresses, which are the operator's business.
        reason: status.reason(),
        offers: declared.offers(),
    })
}

/// The table that calls are routed by: exposed names first, then other spellings as far as only one
/// entry has them.
fn names_of(all: &[ViewEntry], namespaced: bool, naming: Naming) -> HashMap<Box<str>, ViewEntry> {
    let name = |entry: &Arc<Entry>| {
        if namespaced { Arc::clone(&entry.exposed) } else { Arc::clone(&entry.item.key) }
    };
    let mut table: HashMap<Box<str>, ViewEntry> =
        all.iter().map(|seen| (Box::from(&*name(&seen.entry)), seen.clone())).collect();
    if !namespaced {
        return table;
    }
    let mut aliases: HashMap<String, Option<&ViewEntry>> = HashMap::new();
    for seen in all {
        let own: HashSet<String> = naming.aliases(&seen.entry.slug, &seen.entry.item.key).collect();
        for alias in own {
            aliases.entry(alias).and_modify(|other| *other = None).or_insert(Some(seen));
        }
    }
    for (alias, seen) in aliases {
        if let Some(seen) = seen {
            table.entry(alias.into_boxed_str()).or_insert_with(|| seen.clone());
        }
    }
    table
}
