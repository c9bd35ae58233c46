//! The servers of a source, the operator's or an organisation's, with its catalog and, of an
//! organisation, its agents. Catalog and agents are replaced as a single numbered state, so that a
//! view never mixes two states.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use lockgate_authn::{Principal, Role};
use lockgate_protocol::jsonrpc::Request;
use lockgate_protocol::key::Key;
use lockgate_protocol::method::Method;
use lockgate_protocol::name::Slug;
use lockgate_protocol::scan;
use lockgate_upstream::{Instance, ServerId, Upstream, UpstreamState};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::catalog::layers::AgentServers;
use crate::catalog::{Catalog, Servers};
use crate::config::is_management;
use crate::transport::Endpoint;

/// The operator's configuration, or an organisation.
pub(crate) struct ServerSource {
    /// The organisation's name; empty for the operator's.
    pub(crate) name: Arc<str>,
    pub(super) set: ServerSet,
    pub(crate) state: ArcSwap<DirectoryState>,
    changing: Mutex<()>,
    pub(crate) single_principal: SinglePrincipal,
}

/// The current catalog and agents of a source.
pub(crate) struct DirectoryState {
    /// Unique among the states of all sources.
    pub(crate) number: u64,
    pub(crate) catalog: Arc<Catalog>,
    agents: Arc<HashMap<String, AgentServers>>,
}

static NEXT_NUMBER: AtomicU64 = AtomicU64::new(0);

impl DirectoryState {
    fn new(catalog: Arc<Catalog>, agents: Arc<HashMap<String, AgentServers>>) -> Self {
        Self { number: NEXT_NUMBER.fetch_add(1, Ordering::Relaxed), catalog, agents }
    }

    /// Returns the servers of an agent, without a check of the caller.
    pub(super) fn assigned_to(&self, id: &str) -> Option<&BTreeSet<ServerId>> {
        Some(&self.agents.get(id)?.servers)
    }

    /// Returns an agent if this member of the organisation may use it. Unknown
    /// agents and those of others are not distinguished.
    pub(crate) fn find_agent(
        &self,
        id: &str,
        principal: &Principal,
        role: Role,
    ) -> Option<&AgentServers> {
        let agent = self.agents.get(id)?;
        // A key created for the agent, by an administrator of the organisation.
        let is_own_key = principal.only_agent() == Some(id);
        (is_own_key || agent.is_for(principal, role)).then_some(agent)
    }
}

impl ServerSource {
    pub(super) fn new(name: Arc<str>, catalog: Catalog) -> Self {
        Self {
            name,
            set: ServerSet::default(),
            state: ArcSwap::from_pointee(DirectoryState::new(Arc::new(catalog), Arc::default())),
            changing: Mutex::default(),
            single_principal: SinglePrincipal::default(),
        }
    }

    pub(crate) fn state(&self) -> Arc<DirectoryState> {
        self.state.load_full()
    }

    /// Returns whether the catalog was merged from exactly the current servers.
    pub(crate) fn is_merged(&self) -> bool {
        self.state().catalog.is_of(&self.set.get())
    }

    /// Replaces the agents and returns the number of the previous state; `None` if nothing changes.
    pub(super) fn replace_agents(&self, agents: Vec<AgentServers>) -> Option<u64> {
        let by_id: HashMap<_, _> =
            agents.into_iter().map(|agent| (agent.id.clone(), agent)).collect();
        let _changing = self.changing.lock();
        let old = self.state.load();
        if *old.agents == by_id {
            return None;
        }
        self.state.store(Arc::new(DirectoryState::new(Arc::clone(&old.catalog), Arc::new(by_id))));
        Some(old.number)
    }

    /// Replaces the catalog and returns the number of the previous state.
    pub(super) fn replace_catalog(&self, catalog: Catalog) -> u64 {
        let _changing = self.changing.lock();
        let old = self.state.load();
        self.state.store(Arc::new(DirectoryState::new(Arc::new(catalog), Arc::clone(&old.agents))));
        old.number
    }
}

/// The servers of a source. Tracks whether all have come up, and whether their offers to clients
/// that can be asked questions are known.
#[derive(Default)]
pub(crate) struct ServerSet {
    servers: Mutex<Servers>,
    /// Servers with merged lists, with a failure, or with a request that has waited in vain.
    known: Mutex<HashSet<Instance>>,
    /// One more than the catalog version with the offers to modern clients that can be asked
    /// questions.
    pub(super) interactive_known: AtomicU64,
    /// Whether all servers are in `known`.
    settled: AtomicBool,
    settling: Notify,
}

impl ServerSet {
    /// Replaces the servers. Returns those that were added, removed or replaced.
    pub(super) fn replace(
        &self,
        servers: impl IntoIterator<Item = Arc<dyn Upstream>>,
    ) -> HashSet<ServerId> {
        let mut named = Servers::new();
        for server in servers {
            if let Ok(slug) = Slug::new(server.slug()) {
                named.insert(slug, server);
            }
        }
        let instances: HashSet<_> = named.values().map(|server| server.instance()).collect();
        let mut known = self.known.lock();
        known.retain(|instance| instances.contains(instance));
        self.settled.store(known.len() == instances.len(), Ordering::Release);
        drop(known);
        let before = std::mem::replace(&mut *self.servers.lock(), named.clone());
        let ended: HashSet<_> = before.values().map(|server| server.instance()).collect();
        let mut changed = HashSet::new();
        for server in before.values().chain(named.values()) {
            let instance = server.instance();
            if ended.contains(&instance) != instances.contains(&instance) {
                changed.insert(ServerId::of(&**server));
            }
        }
        changed
    }

    pub(super) fn get(&self) -> Servers {
        self.servers.lock().clone()
    }

    /// Waits until each server that the request may concern is known, or the deadline passes.
    /// Resting servers are connected for that. Returns immediately once all servers are known.
    pub(super) async fn settle(
        &self,
        is_about: impl Fn(&dyn Upstream) -> bool,
        deadline: Duration,
    ) {
        if !self.settled.load(Ordering::Acquire) {
            // Boxed because it is rare, to keep the future of a request small.
            Box::pin(self.wait_until_known(is_about, deadline)).await;
        }
    }

    async fn wait_until_known(&self, is_about: impl Fn(&dyn Upstream) -> bool, deadline: Duration) {
        let mut wanted = Vec::new();
        {
            let known = self.known.lock();
            for server in self.servers.lock().values() {
                if !known.contains(&server.instance()) && is_about(&**server) {
                    wanted.push(Arc::clone(server));
                }
            }
        }
        for server in &wanted {
            if is_unknown(&**server) {
                server.touch();
            }
        }
        let wait = async {
            loop {
                let settling = self.settling.notified();
                if self.are_known(&wanted) {
                    return;
                }
                settling.await;
            }
        };
        if tokio::time::timeout(deadline, wait).await.is_err() {
            // Only the first request waits for a slow server.
            self.record_known(wanted.iter());
        }
    }

    fn are_known(&self, servers: &[Arc<dyn Upstream>]) -> bool {
        let known = self.known.lock();
        servers.iter().all(|server| known.contains(&server.instance()))
    }

    fn record_known<'a>(&self, servers: impl Iterator<Item = &'a Arc<dyn Upstream>>) {
        let mut known = self.known.lock();
        known.extend(servers.into_iter().map(|server| server.instance()));
        let servers = self.servers.lock();
        let is_settled = servers.values().all(|server| known.contains(&server.instance()));
        self.settled.store(is_settled, Ordering::Release);
    }

    /// Records the servers that this catalog includes as known. Lists that arrived during the merge
    /// are left to the next merge.
    pub(super) fn merged(&self, servers: &Servers, catalog: &Catalog) {
        let mut known = Vec::new();
        for (slug, server) in servers {
            // In this order: lists that arrive between the two checks change the version.
            let is_unknown = is_unknown(&**server);
            let version = server.catalog().version;
            let is_late = matches!(catalog.merged_version(slug), Some(merged) if merged != version);
            if !is_late && !is_unknown {
                known.push(server);
            } else if version == 0 && server.status().state == UpstreamState::Resting {
                // The lists were dropped, and the server is not connecting.
                self.known.lock().remove(&server.instance());
            }
        }
        self.record_known(known.into_iter());
        self.settling.notify_waiters();
    }
}

/// Returns whether a server has neither lists nor a failure to report.
fn is_unknown(server: &dyn Upstream) -> bool {
    let status = server.status();
    let is_coming = match status.state {
        UpstreamState::Pending => true,
        UpstreamState::Resting => status.trouble.is_none(),
        _ => false,
    };
    is_coming && server.catalog().version == 0
}

const NO_PRINCIPAL: u64 = 0;
const SEVERAL_PRINCIPALS: u64 = u64::MAX;

/// Tracks whether a single principal has used the servers so far. A notification without a request
/// id may concern another caller's call, so it is forwarded only while there is no other caller.
///
/// Once there were several, that state is permanent: a server may report on a call long after the
/// call ended (a background job, for example), so there is no moment after which its notifications
/// can only concern current callers. The loss is small: log messages outside of calls. Log messages
/// of a call reach its caller in any case.
#[derive(Default)]
pub(crate) struct SinglePrincipal(AtomicU64);

impl SinglePrincipal {
    /// Records that a principal, identified by its key, uses a server.
    pub(crate) fn record(&self, caller: u64) {
        // The value 0 is reserved and cannot identify a principal.
        let caller = if caller == NO_PRINCIPAL { SEVERAL_PRINCIPALS } else { caller };
        let known = self.0.load(Ordering::Relaxed);
        if known == caller || known == SEVERAL_PRINCIPALS {
            return;
        }
        let first =
            self.0.compare_exchange(NO_PRINCIPAL, caller, Ordering::Relaxed, Ordering::Relaxed);
        if first.is_err_and(|other| other != caller) {
            self.0.store(SEVERAL_PRINCIPALS, Ordering::Relaxed);
        }
    }

    /// Returns whether this principal is the only one so far.
    pub(crate) fn is(&self, caller: u64) -> bool {
        caller != SEVERAL_PRINCIPALS && self.0.load(Ordering::Relaxed) == caller
    }
}

/// Exposed names keep at least this many bytes of their slug when they are shortened.
const MIN_SLUG_BYTES: usize = 32;

/// The endpoint and target of a request: narrows down which of an organisation's servers it may
/// concern, before their lists are known, so that others need not be connected for it. Not used for
/// routing.
pub struct About<'a> {
    pub(super) endpoint: &'a Endpoint,
    target: Target<'a>,
}

enum Target<'a> {
    /// Lists and resources.
    Any,
    /// A tool or a prompt.
    Named(Cow<'a, str>),
    /// No server that is still unknown.
    None,
}

impl<'a> About<'a> {
    /// Returns the target for everything at an endpoint.
    pub fn all(endpoint: &'a Endpoint) -> Self {
        Self { endpoint, target: Target::Any }
    }

    pub fn request(endpoint: &'a Endpoint, request: &'a Request) -> Self {
        let target = match request.method {
            Method::ToolsCall | Method::PromptsGet => {
                match request.param(Key::Name).and_then(scan::as_str) {
                    Some(name) if is_management(&name) => Target::Any,
                    Some(name) => Target::Named(name),
                    None => Target::None,
                }
            }
            Method::Ping
            | Method::TasksGet
            | Method::TasksUpdate
            | Method::TasksCancel
            | Method::TasksList => Target::None,
            _ => Target::Any,
        };
        Self { endpoint, target }
    }

    /// Returns whether the request may concern a server; `assigned` are the agent's servers.
    pub(super) fn concerns(
        &self,
        server: &dyn Upstream,
        assigned: Option<&BTreeSet<ServerId>>,
    ) -> bool {
        let slug = server.slug();
        // Names at a server's own endpoint carry no slug, and those at a composed endpoint may be
        // those of any server.
        let (is_there, has_slugs) = match self.endpoint {
            Endpoint::All => (true, true),
            Endpoint::Composed(_) => (true, false),
            Endpoint::Server(only) => (only == slug, false),
            Endpoint::Agent(_) => {
                (assigned.is_some_and(|assigned| assigned.contains(&ServerId::of(server))), true)
            }
        };
        is_there
            && match &self.target {
                Target::Any => true,
                Target::Named(name) => !has_slugs || begins_with_slug(name, slug),
                Target::None => false,
            }
    }
}

fn begins_with_slug(name: &str, slug: &str) -> bool {
    let shown = slug.get(..MIN_SLUG_BYTES).unwrap_or(slug);
    matches!(name.get(..shown.len()), Some(start) if start.eq_ignore_ascii_case(shown))
}

#[cfg(test)]
mod tests;
