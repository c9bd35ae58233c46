//! Lists of an organisation. Everything is read from memory.

use std::collections::BTreeSet;
use std::sync::Arc;

use lockgate_store::Agent;

use crate::actor::Actor;
use crate::agents::AgentServer;
use crate::error::{RegistryError, Result};
use crate::field;
use crate::objects::{Auth, Integration};
use crate::registry::Registry;
use crate::state::AgentSnapshot;

impl Registry {
    /// Returns the integrations of the actor's organisation.
    pub fn list_integrations(&self, actor: &Actor) -> Vec<Integration> {
        self.state(&actor.organisation).integrations.clone()
    }

    /// Returns an integration of the actor's organisation.
    ///
    /// # Errors
    /// [`RegistryError::IntegrationNotFound`].
    pub fn integration(&self, actor: &Actor, id: &str) -> Result<Integration> {
        let state = self.state(&actor.organisation);
        state.find_integration(id).cloned().ok_or(RegistryError::IntegrationNotFound)
    }

    /// Returns whether an organisation has an integration, enabled or not, with this method of
    /// authentication.
    pub fn has_auth(&self, organisation: &str, id: &str, auth: &Auth) -> bool {
        let state = self.state(organisation);
        state.find_integration(id).is_some_and(|integration| integration.auth == *auth)
    }

    /// Returns the agents of the actor's organisation; for a user, only the user's own.
    pub fn list_agents(&self, actor: &Actor) -> Vec<Arc<AgentSnapshot>> {
        let mut agents = self.state(&actor.organisation).snapshot.agents.clone();
        agents.retain(|known| actor.may_touch(&known.agent));
        agents
    }

    /// Returns an agent of the actor's organisation.
    ///
    /// # Errors
    /// [`RegistryError::AgentNotFound`], also for an agent of another user.
    pub fn agent(&self, actor: &Actor, id: &str) -> Result<Agent> {
        Ok(self.state(&actor.organisation).find_agent(actor, id)?.agent.clone())
    }

    /// Returns the integrations assigned to an agent, in the order of assignment.
    ///
    /// # Errors
    /// [`RegistryError::AgentNotFound`].
    pub fn list_assigned(&self, actor: &Actor, agent: &str) -> Result<Vec<Integration>> {
        let state = self.state(&actor.organisation);
        let servers = state.find_agent(actor, agent)?.servers.iter();
        let assigned = servers.filter_map(|id| state.find_integration(id));
        Ok(assigned.cloned().collect())
    }

    /// Returns the servers of an agent that are assigned or have hidden tools.
    ///
    /// # Errors
    /// [`RegistryError::AgentNotFound`].
    pub fn list_agent_servers(&self, actor: &Actor, agent: &str) -> Result<Vec<AgentServer>> {
        let state = self.state(&actor.organisation);
        let found = state.find_agent(actor, agent)?;
        let mut hidden = found.hidden.clone();
        let assigned = found.servers.iter();
        let assigned = assigned
            .map(|server| describe(agent, server, true, hidden.remove(server).unwrap_or_default()));
        let mut servers: Vec<_> = assigned.collect();
        servers.extend(hidden.into_iter().map(|(at, tools)| describe(agent, &at, false, tools)));
        Ok(servers)
    }

    /// Returns the ids of an organisation's agents that have an integration, sorted.
    pub fn agents_with(&self, organisation: &str, integration: &str) -> Vec<String> {
        let state = self.state(organisation);
        let agents = state.snapshot.agents.iter();
        let with = agents.filter(|known| known.servers.iter().any(|id| id == integration));
        let mut agents: Vec<_> = with.map(|known| known.agent.id.clone()).collect();
        agents.sort();
        agents
    }

    /// Returns the integrations that can be assigned to an agent: enabled, and not yet assigned.
    ///
    /// # Errors
    /// [`RegistryError::AgentNotFound`].
    pub fn list_available(&self, actor: &Actor, agent: &str) -> Result<Vec<Integration>> {
        let state = self.state(&actor.organisation);
        let assigned = &state.find_agent(actor, agent)?.servers;
        let integrations = state.integrations.iter().filter(|one| one.enabled);
        let unassigned = integrations.filter(|one| !assigned.contains(&one.id));
        let mut available: Vec<_> = unassigned.cloned().collect();
        available.sort_by_cached_key(|integration| field::name_key(&integration.name));
        Ok(available)
    }
}

fn describe(agent: &str, server: &str, is_assigned: bool, hidden: BTreeSet<String>) -> AgentServer {
    AgentServer {
        agent: agent.to_owned(),
        server: server.to_owned(),
        is_assigned,
        hidden_tools: hidden.into_iter().collect(),
    }
}
