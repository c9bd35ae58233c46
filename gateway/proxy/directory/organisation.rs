//! What one organisation has: servers of its own with their catalog, and agents. What may be seen
//! of it is replaced as one, under a number of its own, so that a view is never of half a change.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use lockgate_authn::{Principal, Role};
use lockgate_upstream::ServerId;
use parking_lot::Mutex;

use super::server_set::ServerSet;
use crate::catalog::Catalog;
use crate::single_principal::SinglePrincipal;

/// The servers that are assigned to one agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentServers {
    pub id: String,
    pub owner: AgentOwner,
    /// Those that are not there are no mistake.
    pub servers: BTreeSet<ServerId>,
}

/// The principal, in the agent's organisation, whose agent it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentOwner {
    pub issuer: String,
    pub subject: String,
}

impl AgentServers {
    /// Whether a member of its organisation may use it.
    fn is_for(&self, principal: &Principal, role: Role) -> bool {
        let is_owner =
            *self.owner.issuer == *principal.issuer && *self.owner.subject == *principal.subject;
        is_owner || role >= Role::Admin
    }
}

/// See the module.
pub(crate) struct Organisation {
    pub(crate) name: Arc<str>,
    pub(super) set: ServerSet,
    state: ArcSwap<State>,
    changing: Mutex<()>,
    /// Of those who reach its servers.
    pub(crate) single_principal: SinglePrincipal,
}

/// What may be seen of an organisation now.
pub(crate) struct State {
    /// No other state of any organisation has it.
    pub(crate) number: u64,
    pub(crate) catalog: Arc<Catalog>,
    agents: Arc<HashMap<String, AgentServers>>,
}

static NEXT_NUMBER: AtomicU64 = AtomicU64::new(0);

impl State {
    fn new(catalog: Arc<Catalog>, agents: Arc<HashMap<String, AgentServers>>) -> Self {
        Self { number: NEXT_NUMBER.fetch_add(1, Ordering::Relaxed), catalog, agents }
    }

    /// The servers of an agent, whoever asks.
    pub(super) fn assigned_to(&self, id: &str) -> Option<&BTreeSet<ServerId>> {
        Some(&self.agents.get(id)?.servers)
    }

    /// The servers of an agent, if it is there for this member of the organisation. Unknown and
    /// foreign look alike.
    pub(crate) fn find_agent(
        &self,
        id: &str,
        principal: &Principal,
        role: Role,
    ) -> Option<&BTreeSet<ServerId>> {
        let agent = self.agents.get(id)?;
        if agent.is_for(principal, role) { Some(&agent.servers) } else { None }
    }
}

impl Organisation {
    pub(super) fn new(name: Arc<str>, catalog: Catalog) -> Self {
        Self {
            name,
            set: ServerSet::default(),
            state: ArcSwap::from_pointee(State::new(Arc::new(catalog), Arc::default())),
            changing: Mutex::default(),
            single_principal: SinglePrincipal::default(),
        }
    }

    pub(crate) fn state(&self) -> Arc<State> {
        self.state.load_full()
    }

    /// Whether its catalog is of the servers that it has now, each as it is.
    pub(crate) fn is_merged(&self) -> bool {
        self.state().catalog.is_of(&self.set.get())
    }

    /// Gives the number of the state that is over; none when nothing changes.
    pub(super) fn replace_agents(&self, agents: Vec<AgentServers>) -> Option<u64> {
        let mut by_id = HashMap::with_capacity(agents.len());
        for agent in agents {
            by_id.insert(agent.id.clone(), agent);
        }
        let _changing = self.changing.lock();
        let old = self.state.load();
        if *old.agents == by_id {
            return None;
        }
        self.state.store(Arc::new(State::new(Arc::clone(&old.catalog), Arc::new(by_id))));
        Some(old.number)
    }

    /// Gives the number of the state that is over.
    pub(super) fn replace_catalog(&self, catalog: Catalog) -> u64 {
        let _changing = self.changing.lock();
        let old = self.state.load();
        self.state.store(Arc::new(State::new(Arc::new(catalog), Arc::clone(&old.agents))));
        old.number
    }
}
