//! The gateway's servers by source (the operator's configuration, or an organisation) and the
//! catalog merged from each. A change of a source rebuilds its own catalog only. Replaced catalogs
//! are not kept here.

mod changes;
mod organisation;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use lockgate_authn::Principal;
use lockgate_policy::pin::Pins;
use lockgate_protocol::name::Naming;
use lockgate_protocol::revision::Era;
use lockgate_telemetry::Metrics;
use lockgate_upstream::{Announcement, Event, Events, ServerId, Upstream};
use parking_lot::Mutex;
use tokio::sync::{Notify, broadcast};

pub use changes::{Change, ChangeReceiver, Changes, covers_resource};
pub use organisation::About;
pub(crate) use organisation::{DirectoryState, ServerSource};

use crate::activity::ToolNews;
use crate::catalog::layers::AgentServers;
use crate::catalog::{Catalog, Selection, Servers, Viewing};
use crate::flagged_tools::log_new_flagged_tools;
use crate::rights::CallerRights;
use crate::snapshot::Snapshot;
use crate::transport::Endpoint;

/// Events buffered for a slow receiver before the oldest are lost.
const MAX_BACKLOG: usize = 1024;

/// The servers of all sources, and their catalogs.
pub struct Directory {
    /// The operator's.
    pub(crate) shared: Arc<ServerSource>,
    /// Organisations with servers or agents, by name.
    organisations: ArcSwap<HashMap<Arc<str>, Arc<ServerSource>>>,
    changing: Mutex<()>,
    /// Whether a server of the operator has lists for each caller.
    has_private_lists: AtomicBool,
    /// The servers' events.
    pub events: Events,
    pub changes: Changes,
    pub(crate) wakes: Wakes,
    pub tools: ToolNews,
}

fn merge_nothing(naming: Naming, metrics: &Metrics) -> Catalog {
    Catalog::merge(Servers::new(), naming, &Pins::default(), None, metrics)
}

impl Directory {
    pub(crate) fn new(naming: Naming, metrics: &Metrics) -> Self {
        Self {
            shared: Arc::new(ServerSource::new("".into(), merge_nothing(naming, metrics))),
            organisations: ArcSwap::default(),
            changing: Mutex::default(),
            has_private_lists: AtomicBool::new(false),
            events: broadcast::channel(MAX_BACKLOG).0,
            changes: Changes::default(),
            wakes: Wakes::default(),
            tools: ToolNews::default(),
        }
    }

    /// Replaces the operator's servers; those in both sets stay connected.
    pub fn set_servers(&self, servers: impl IntoIterator<Item = Arc<dyn Upstream>>) {
        let others = self.shared.set.replace(servers);
        self.wakes.add(None, WantedWork::Merge);
        self.tell_replaced(others);
    }

    /// Sends events for servers that were added, removed or replaced. An added server may have
    /// connected before, when its own events did not find it here.
    fn tell_replaced(&self, servers: HashSet<ServerId>) {
        for server in servers {
            let _ = self.events.send(Event::Changed { server });
        }
    }

    /// Replaces an organisation's servers and agents; an organisation without any is removed.
    pub(crate) fn set_organisation(
        &self,
        name: &str,
        servers: Vec<Arc<dyn Upstream>>,
        agents: Vec<AgentServers>,
        (naming, metrics): (Naming, &Metrics),
    ) {
        let _changing = self.changing.lock();
        let all = self.organisations.load();
        let is_nothing = servers.is_empty() && agents.is_empty();
        let organisation = match all.get(name) {
            Some(known) => Arc::clone(known),
            None if is_nothing => return,
            None => Arc::new(ServerSource::new(name.into(), merge_nothing(naming, metrics))),
        };
        let others = organisation.set.replace(servers);
        if let Some(over) = organisation.replace_agents(agents) {
            self.forget_views(over);
        }
        if is_nothing || !all.contains_key(name) {
            let mut changed = HashMap::clone(&all);
            if is_nothing {
                drop(changed.remove(name))
            } else {
                drop(changed.insert(name.into(), Arc::clone(&organisation)))
            }
            self.organisations.store(Arc::new(changed));
        }
        if is_nothing {
            let last = organisation.state();
            self.forget_views(last.number);
            self.tools.tell_changes(&last.catalog, None);
        }
        // Changed servers cause a merge anyway; agents do not affect server lists.
        self.wakes.add(Some(Arc::clone(&organisation.name)), WantedWork::Tell);
        self.tell_replaced(others);
    }

    /// Drops the views that include an organisation's previous state.
    fn forget_views(&self, number: u64) {
        self.shared.state.load().catalog.views.forget(number);
    }

    /// Returns the operator's servers, or an organisation's.
    pub fn servers_of(&self, organisation: Option<&str>) -> Vec<Arc<dyn Upstream>> {
        let source = self.source(organisation);
        let servers = source.map(|source| source.set.get().into_values().collect());
        servers.unwrap_or_default()
    }

    /// Returns all servers that members of an organisation may have used.
    pub fn servers_for(&self, organisation: &str) -> Vec<Arc<dyn Upstream>> {
        [self.servers_of(None), self.servers_of(Some(organisation))].concat()
    }

    /// Returns the servers of all organisations.
    pub(crate) fn own_servers(&self) -> Vec<Arc<dyn Upstream>> {
        let organisations = self.organisations.load();
        organisations.values().flat_map(|own| own.set.get().into_values()).collect()
    }

    /// Returns a server, also if its lists are not merged yet.
    pub fn find_server(&self, id: &ServerId) -> Option<Arc<dyn Upstream>> {
        self.source(id.organisation.as_deref())?.set.get().remove(&*id.slug)
    }

    /// Returns the operator's servers, or an organisation's.
    pub(crate) fn source(&self, organisation: Option<&str>) -> Option<Arc<ServerSource>> {
        match organisation {
            None => Some(Arc::clone(&self.shared)),
            Some(name) => self.organisation(name),
        }
    }

    pub(crate) fn organisation(&self, name: &str) -> Option<Arc<ServerSource>> {
        let all = self.organisations.load();
        // Skip hashing the name in the common case without organisations.
        if all.is_empty() { None } else { all.get(name).cloned() }
    }

    /// Returns whether a server of the operator has lists for each caller.
    pub fn has_private_lists(&self) -> bool {
        self.has_private_lists.load(Ordering::Relaxed)
    }

    /// Returns the servers with lists for each caller.
    pub(crate) fn private_servers(&self) -> Vec<Arc<dyn Upstream>> {
        let catalog = self.catalog();
        let servers = catalog.servers.values().filter(|server| server.has_private_lists());
        servers.cloned().collect()
    }

    /// Returns the catalog of the operator's servers.
    pub(crate) fn catalog(&self) -> Arc<Catalog> {
        Arc::clone(&self.shared.state.load().catalog)
    }

    /// Returns the catalog of the operator's servers, or of an organisation's.
    pub fn catalog_of(&self, organisation: Option<&str>) -> Option<Arc<Catalog>> {
        Some(Arc::clone(&self.source(organisation)?.state.load().catalog))
    }

    /// Returns a server from the catalog that includes it.
    pub(crate) fn find_merged(&self, id: &ServerId) -> Option<Arc<dyn Upstream>> {
        self.catalog_of(id.organisation.as_deref())?.servers.get(&*id.slug).cloned()
    }

    /// Waits until each of the operator's servers has connected or failed, or the deadline passes.
    pub(crate) async fn settle_shared(&self, deadline: Duration) {
        self.shared.set.settle(|_| true, deadline).await;
    }

    /// Waits likewise for the operator's servers and for those of the organisation that the request
    /// may concern. Returns immediately once all are known.
    pub async fn settle<'a>(
        &self,
        organisation: &str,
        about: impl FnOnce() -> About<'a>,
        deadline: Duration,
    ) {
        match self.organisation(organisation) {
            None => self.settle_shared(deadline).await,
            // Boxed because it is rare, to keep the future of a request small.
            Some(own) => {
                Box::pin(async move {
                    let about = about();
                    let state = own.state();
                    let assigned = match about.endpoint {
                        Endpoint::Agent(agent) => state.assigned_to(agent.name()),
                        _ => None,
                    };
                    tokio::join!(
                        self.settle_shared(deadline),
                        own.set.settle(|server| about.concerns(server, assigned), deadline),
                    );
                })
                .await;
            }
        }
    }

    /// Waits until the servers' offers to clients of this era that can be asked questions are known
    /// and merged, or the deadline passes. `servers` are those in the view of the organisation's
    /// member.
    pub async fn wait_for_interactive(
        &self,
        organisation: &str,
        servers: &Servers,
        era: Era,
        deadline: Duration,
    ) {
        let mut changes = self.changes.subscribe(organisation);
        let known = async {
            let waits: Vec<_> =
                servers.values().map(|server| server.wait_for_interactive(era)).collect();
            futures_util::future::join_all(waits).await;
            while servers.values().any(|server| self.is_behind(&**server)) {
                if let Err(broadcast::error::RecvError::Closed) = changes.recv().await {
                    return;
                }
            }
        };
        let _ = tokio::time::timeout(deadline, known).await;
    }

    /// Returns whether a server has lists that are not merged yet.
    fn is_behind(&self, server: &dyn Upstream) -> bool {
        let catalog = self.catalog_of(server.organisation().map(|name| &**name));
        let Some(catalog) = catalog else { return false };
        let merged = catalog.merged_version(server.slug());
        matches!(merged, Some(merged) if merged < server.catalog().version)
    }

    /// Waits likewise for modern clients, once for each catalog. Returns whether a catalog changed
    /// during the wait, so that views have to be looked up again.
    pub(crate) async fn wait_for_interactive_modern(
        &self,
        organisation: &str,
        deadline: Duration,
    ) -> bool {
        let own = self.organisation(organisation);
        let shared = self.wait_for_interactive_of(organisation, &self.shared, deadline);
        match own {
            None => shared.await,
            Some(own) => {
                let own = self.wait_for_interactive_of(organisation, &own, deadline);
                let (shared, own) = tokio::join!(shared, own);
                shared || own
            }
        }
    }

    async fn wait_for_interactive_of(
        &self,
        organisation: &str,
        source: &ServerSource,
        deadline: Duration,
    ) -> bool {
        let set = &source.set;
        let before = source.state.load().catalog.version;
        if set.interactive_known.load(Ordering::Acquire) == before + 1 {
            return false;
        }
        // Boxed because it is rare, to keep the future of a request small.
        Box::pin(self.wait_for_interactive(organisation, &set.get(), Era::Modern, deadline)).await;
        let after = source.state.load().catalog.version;
        set.interactive_known.store(after + 1, Ordering::Release);
        before != after
    }

    /// Merges a source's servers again if the catalog would change or a merge is requested. Returns
    /// whether clients have to be notified.
    pub(crate) fn rebuild(
        &self,
        source: &Source,
        snapshot: &Snapshot,
        metrics: &Metrics,
        wanted: Option<WantedWork>,
        announced: &Arc<[Announcement]>,
    ) -> bool {
        let Some(own) = self.source(source.as_deref()) else {
            // The organisation was removed, so its members' views change.
            self.changes.send(source.as_ref(), Change::Catalog(Arc::clone(announced)));
            return true;
        };
        let servers = own.set.get();
        let before = &own.state().catalog;
        let changed = wanted == Some(WantedWork::Merge) || !before.reflects(&servers);
        if changed {
            let pins = &snapshot.config.pins;
            let merged = servers.clone();
            let after = Catalog::merge(merged, snapshot.naming, pins, Some(before), metrics);
            log_new_flagged_tools(before, &after, pins);
            self.tools.tell_changes(before, Some(&after));
            let is_private = after.servers.values().any(|one| one.has_private_lists());
            self.forget_views(own.replace_catalog(after));
            if source.is_none() {
                self.has_private_lists.store(is_private, Ordering::Relaxed);
            }
        }
        let tells = changed || wanted.is_some() || !announced.is_empty();
        if tells {
            self.changes.send(source.as_ref(), Change::Catalog(Arc::clone(announced)));
        }
        own.set.merged(&servers, &own.state().catalog);
        tells
    }

    /// Rebuilds all catalogs after a change of policy or naming.
    pub(crate) fn refresh(&self) {
        self.shared.state.load().catalog.views.clear();
        self.wakes.add(None, WantedWork::Merge);
        for name in self.organisations.load().keys() {
            self.wakes.add(Some(Arc::clone(name)), WantedWork::Merge);
        }
    }
}

pub(crate) fn make_viewing<'a>(
    selection: Selection<'_>,
    snapshot: &'a Snapshot,
    rights: &'a CallerRights,
) -> Viewing<'a> {
    let tool_search = &snapshot.config.tool_search;
    let of_agent = match selection {
        Selection::Assigned(agent) => agent.mode,
        _ => None,
    };
    let mode = tool_search.mode(&rights.endpoint.path(), of_agent);
    Viewing {
        policy: &snapshot.policy,
        rights,
        naming: snapshot.naming,
        mode,
        tool_search,
        extensions: &snapshot.config.extensions,
        groups: &snapshot.config.groups,
    }
}

/// Returns the servers of an endpoint; `None` if the endpoint does not exist for the caller.
pub(crate) fn select<'a>(
    endpoint: &'a Endpoint,
    state: Option<&'a DirectoryState>,
    snapshot: &'a Snapshot,
    caller: &Principal,
) -> Option<Selection<'a>> {
    Some(match endpoint {
        Endpoint::All => Selection::All,
        Endpoint::Server(slug) => Selection::One(slug),
        Endpoint::Composed(composed) => {
            Selection::Composed(snapshot.config.endpoints.get(composed.name())?)
        }
        Endpoint::Agent(agent) => {
            let role = snapshot.authenticator.role_of(caller);
            Selection::Assigned(state?.find_agent(agent.name(), caller, role)?)
        }
    })
}

/// The origin of servers: an organisation, or `None` for the operator's configuration.
pub type Source = Option<Arc<str>>;

/// Work on a source, in ascending order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum WantedWork {
    /// Clients are notified if their lists have changed.
    Tell,
    /// The source is merged, which includes `Tell`.
    Merge,
}

#[derive(Default)]
pub(crate) struct Wakes {
    sources: Mutex<BTreeMap<Source, WantedWork>>,
    notify: Notify,
}

impl Wakes {
    fn add(&self, source: Source, wanted: WantedWork) {
        let mut sources = self.sources.lock();
        let known = sources.entry(source).or_insert(wanted);
        *known = wanted.max(*known);
        drop(sources);
        self.notify.notify_one();
    }

    /// Waits for requested work. Cancel safe.
    pub(crate) async fn wait(&self) {
        self.notify.notified().await;
    }

    pub(crate) fn take(&self) -> BTreeMap<Source, WantedWork> {
        std::mem::take(&mut *self.sources.lock())
    }
}
