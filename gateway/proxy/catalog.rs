//! The merged picture of every server's tools, prompts, resources and templates, and how the part of it that may be seen
//! at one endpoint is made. Both are immutable: a change makes a new one.

mod entry;
mod hidden;
mod keep;
pub(crate) mod mark;
pub(crate) mod rendered;
mod resources;
pub(crate) mod template;
mod view;
mod views;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use lockgate_policy::pin::Pins;
use lockgate_policy::{Annotations, Kind, Policy};
use lockgate_protocol::capabilities::Offers;
use lockgate_protocol::name::{Naming, Slug};
use lockgate_protocol::uri;
use lockgate_telemetry::Metrics;
use lockgate_upstream::{Item, ListKind, State, Status, Upstream};

use entry::category;
pub(crate) use entry::{Entry, Seen, index};
pub(crate) use hidden::Asking;
use keep::{KEEP_MS, keep_ms};
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
        let all = Offers { tools: true, prompts: true, resources: true, completions: true, ..self.offers };
        if unknown { all } else { self.offers }
    }

    /// Whether a server has the same lists, and is as it was, as far as that shows to anybody.
    fn is_still_said_by(&self, server: &dyn Upstream) -> bool {
        let status = server.status();
        let catalog = server.catalog();
        let shows = |status: &Status| {
            (status.state, status.trouble.as_ref().map(|t| (t.stage, t.reason())), status.peer.as_ref().map(|p| p.era))
        };
        self.version == catalog.version
            && self.keep_ms == keep_ms(&catalog, &status)
            && shows(&self.status) == shows(&status)
    }
}

fn declared(server: &dyn Upstream, catalog: &lockgate_upstream::Catalog, pins: &Pins) -> Declared {
    let instructions = catalog.instructions.as_ref().map(|text| inspect::instructions(text, pins));
    let status = server.status();
    let keep_ms = keep_ms(catalog, &status);
    Declared { offers: catalog.offers, instructions, status, version: catalog.version, keep_ms }
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
        let tools = before.into_iter().flat_map(Self::tools);
        let known = Known::of(tools.filter_map(|e| Some((e.slug.as_str(), &*e.item.key, e.inspected.as_ref()?))));
        let catalogs: Vec<_> = servers.iter().map(|(slug, server)| (slug, server, server.catalog())).collect();
        let mut items = ListKind::ALL.map(|kind| {
            let all: Vec<_> = catalogs
                .iter()
                .flat_map(|(slug, server, c)| {
                    let everybody = c.items(kind).iter().map(move |item| (*slug, *server, item, false));
                    everybody.chain(c.asking_items(kind).iter().map(move |item| (*slug, *server, item, true)))
                })
                .collect();
            let exposed: Vec<String> = match kind {
                ListKind::Tools | ListKind::Prompts => {
                    naming.expose(all.iter().map(|(slug, _, item, _)| (*slug, &*item.key)))
                }
                ListKind::Resources | ListKind::Templates => {
                    all.iter().map(|(slug, _, item, _)| uri::expose(slug, &item.key).into_owned()).collect()
                }
            };
            type One<'a> = (&'a Slug, &'a Arc<dyn Upstream>, &'a Item, bool);
            let entry = |((slug, server, item, asks), exposed): (One<'_>, String)| {
                let is_tool = kind == ListKind::Tools;
                let metrics = is_tool.then(|| metrics.tool(slug, &item.key));
                let category = category(&**server);
                let inspected = is_tool.then(|| known.inspect(slug, item, category.is_some(), pins));
                Arc::new(Entry {
                    slug: slug.clone(),
                    server: Arc::clone(server),
                    exposed: exposed.into(),
                    item: inspect::shown(item, pins),
                    asks,
                    metrics,
                    inspected,
                    category,
                    annotations: annotations(kind, item),
                })
            };
            all.into_iter().zip(exposed).map(entry).collect::<Vec<_>>()
        });
        let held = |entry: &mut Arc<Entry>| entry.inspected.as_ref().is_some_and(|inspected| inspected.quarantined);
        let quarantined = items[index(ListKind::Tools)].extract_if(.., held).collect();
        let declared =
            catalogs.iter().map(|(slug, server, c)| ((*slug).clone(), declared(&***server, c, pins))).collect();
        drop(catalogs);
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
                let said = || self.declared.get(slug).is_some_and(|declared| declared.is_still_said_by(&**new));
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
            Endpoint::Server(slug) => Some(self.servers.keys().find(|s| s.as_str() == slug)?.clone()),
        };
        let seen = ListKind::ALL.map(|kind| {
            let asked = self.items(kind).iter().filter(|entry| only.as_ref().is_none_or(|only| *only == entry.slug));
            asked.filter_map(|entry| seen(policy, rights, kind, entry)).collect::<Vec<_>>()
        });
        let empty = |slug: &Slug| !self.items.iter().flatten().any(|entry| entry.slug == *slug);
        let has_some: HashSet<&Slug> = seen.iter().flatten().map(|seen| &seen.entry.slug).collect();
        let visible = |slug: &Slug| has_some.contains(slug) || empty(slug) && policy.reaches(&rights.class, slug);
        if only.as_ref().is_some_and(|only| !visible(only)) {
            return None;
        }
        let here = |slug: &Slug| only.as_ref().map_or_else(|| visible(slug), |only| only == slug);
        let namespaced = only.is_none();
        let names = [ListKind::Tools, ListKind::Prompts].map(|kind| names(&seen[index(kind)], namespaced, naming));
        let items = seen.each_ref().map(|seen| seen.iter().map(|seen| Arc::clone(&seen.entry)).collect::<Vec<_>>());
        let web = items[index(ListKind::Resources)].iter().filter(|e| e.exposed == e.item.key);
        let web = web.map(|e| (Box::from(&*e.exposed), e.slug.clone())).collect();
        let declared: Vec<_> = self.declared.iter().filter(|(slug, _)| here(slug)).collect();
        let offers = declared.iter().fold(Offers::default(), |all, (_, d)| all.or(d.offers()));
        let instructions = declared.iter().filter_map(|(slug, d)| Some(((*slug).clone(), d.instructions.clone()?)));
        Some(View {
            namespaced,
            servers: self
                .servers
                .iter()
                .filter(|(slug, _)| here(slug))
                .map(|(s, u)| (s.clone(), Arc::clone(u)))
                .collect(),
            names,
            web,
            offers,
            instructions: instructions.collect(),
            degraded: declared.iter().filter_map(|(slug, d)| degraded(slug, &d.status)).collect(),
            keep_ms: declared.iter().filter_map(|(_, d)| d.keep_ms).fold(KEEP_MS, u64::min),
            policy: Arc::clone(policy),
            rights: rights.clone(),
            items,
            rendered: Rendered::default(),
            marks: Default::default(),
        })
    }
}

/// The entry with what policy says of it, unless policy hides it.
fn seen(policy: &Policy, rights: &CallerRights, kind: ListKind, entry: &Arc<Entry>) -> Option<Seen> {
    let kind = match kind {
        ListKind::Tools => Kind::Tool,
        ListKind::Prompts => Kind::Prompt,
        ListKind::Resources | ListKind::Templates => Kind::Resource,
    };
    let subject = rights.subject();
    let target = entry.target(kind);
    let verdict = policy.verdict(&rights.class, &rights.question(&subject, &target));
    if let Some(failure) = verdict.failure() {
        tracing::warn!(tool = &*entry.exposed, failure, "denied, because a policy could not be evaluated");
    }
    verdict.is_visible().then(|| Seen { entry: Arc::clone(entry), verdict: Arc::new(verdict) })
}

/// What a server says of a tool; of nothing else.
fn annotations(kind: ListKind, item: &Item) -> Annotations {
    if kind == ListKind::Tools { Annotations::of_tool(&item.text) } else { Annotations::default() }
}

fn degraded(slug: &Slug, status: &Status) -> Option<Degraded> {
    let reason = match (status.state, &status.trouble) {
        (State::Connected | State::Disabled, _) => return None,
        // The words may name commands and addresses, which are the operator's business.
        (_, Some(trouble)) => format!("{} failed: {}", trouble.stage.as_str(), trouble.reason()),
        (_, None) => "still starting".to_owned(),
    };
    Some(Degraded { server: slug.to_string(), state: status.state.as_str(), reason })
}

/// The table that calls are routed by: exposed names first, then other spellings as far as only one entry has them.
fn names(all: &[Seen], namespaced: bool, naming: Naming) -> HashMap<Box<str>, Seen> {
    let name = |entry: &Arc<Entry>| if namespaced { Arc::clone(&entry.exposed) } else { Arc::clone(&entry.item.key) };
    let mut table: HashMap<Box<str>, Seen> =
        all.iter().map(|seen| (Box::from(&*name(&seen.entry)), seen.clone())).collect();
    if !namespaced {
        return table;
    }
    let mut aliases: HashMap<String, Option<&Seen>> = HashMap::new();
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
