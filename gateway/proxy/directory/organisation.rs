//! An organisation's servers, their catalog, and its agents. Catalog and agents are replaced as a
//! single numbered state, so that a view never mixes two states. Callers with connections that list
//! other items have views of their own.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use lockgate_authn::{Principal, Role};
use lockgate_telemetry::Metrics;
use lockgate_upstream::{ServerId, Upstream};
use parking_lot::Mutex;

use crate::agent_servers::AgentServers;
use crate::catalog::{Catalog, Layers, OwnRules, View, ViewLayer};
use crate::directory::server_set::ServerSet;
use crate::directory::{Directory, make_viewing, select};
use crate::flagged_tools::log_new_flagged_tools;
use crate::own_lists::OwnDelta;
use crate::rights::CallerRights;
use crate::single_principal::SinglePrincipal;
use crate::snapshot::Snapshot;
use crate::transport::Endpoint;

pub(crate) struct Organisation {
    pub(crate) name: Arc<str>,
    pub(super) set: ServerSet,
    state: ArcSwap<DirectoryState>,
    changing: Mutex<()>,
    pub(crate) single_principal: SinglePrincipal,
}

/// The current catalog and agents of an organisation.
pub(crate) struct DirectoryState {
    /// Unique among the states of all organisations.
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

impl Organisation {
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

#[derive(Clone, Copy)]
pub(crate) struct Seeing<'a> {
    pub(crate) endpoint: &'a Endpoint,
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) rights: &'a CallerRights,
}

impl Directory {
    /// Returns a server from the catalog that includes it.
    pub(crate) fn find_merged(&self, id: &ServerId) -> Option<Arc<dyn Upstream>> {
        self.catalog_of(id.organisation.as_deref())?.servers.get(&*id.slug).cloned()
    }

    /// Returns the view of a caller with its own lists. Callers of a class with the same
    /// differences share it.
    pub(crate) fn view_with(
        &self,
        deltas: &[OwnDelta],
        seeing: Seeing<'_>,
        metrics: &Metrics,
    ) -> Option<Arc<View>> {
        let Seeing { endpoint, snapshot, rights } = seeing;
        if deltas.is_empty() {
            return self.view(endpoint, snapshot, rights);
        }
        let shared = self.catalog.load();
        let organisation = self.organisation(rights.principal.organisation());
        let state = organisation.map(|organisation| organisation.state());
        let selection = select(endpoint, state.as_deref(), snapshot, &rights.principal)?;
        let number = state.as_ref().map(|state| state.number);
        let mark = compute_mark(rights.class.mark(), number, deltas);
        if let Some(known) = shared.views.get(ViewLayer::OfClient(number), endpoint, mark) {
            return Some(known);
        }
        let pins = &snapshot.config.pins;
        let rules = OwnRules { naming: snapshot.naming, pins, metrics };
        let changed = shared.with_own(deltas, rules);
        log_new_flagged_tools(&shared, &changed, pins);
        let own = state.as_ref().map(|state| {
            let changed = state.catalog.with_own(deltas, rules);
            log_new_flagged_tools(&state.catalog, &changed, pins);
            changed
        });
        let viewing = make_viewing(endpoint, selection, snapshot, rights);
        let view = Layers { shared: &changed, own: own.as_ref() }.view(selection, viewing)?;
        let of = ViewLayer::OfClient(number);
        Some(shared.views.keep(of, || true, (endpoint, mark), view))
    }
}

/// Computes the cache key of a class of callers with these lists.
fn compute_mark(class: [u8; 16], organisation: Option<u64>, deltas: &[OwnDelta]) -> [u8; 16] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&class).update(&organisation.map_or(u64::MAX, |own| own).to_le_bytes());
    for delta in deltas {
        let server = delta.server.to_string();
        hasher.update(&(server.len() as u64).to_le_bytes()).update(server.as_bytes());
        hasher.update(&delta.lists.mark).update(&[u8::from(delta.is_first)]);
    }
    let mut mark = [0; 16];
    hasher.finalize_xof().fill(&mut mark);
    mark
}
