//! An organisation's servers, their catalog, and its agents. Catalog and agents are replaced as a
//! single numbered state, so that a view never mixes two states.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use lockgate_authn::{Principal, Role};
use lockgate_upstream::ServerId;
use parking_lot::Mutex;

use super::server_set::ServerSet;
use crate::agent_servers::AgentServers;
use crate::catalog::Catalog;
use crate::single_principal::SinglePrincipal;

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
