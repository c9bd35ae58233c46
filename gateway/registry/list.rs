//! Lists of an organisation: filtered, sorted and paginated. Everything is read from memory.

use std::collections::BTreeSet;

use crate::actor::Actor;
use crate::agents::AgentServer;
use crate::error::RegistryError;
use crate::field;
use crate::objects::{Agent, Auth, Integration, IntegrationKind};
use crate::registry::Registry;

/// Maximum number of items per page.
pub const MAX_PAGE: usize = 200;
const DEFAULT_PAGE: usize = 50;

/// The sort key of a list; ties are sorted by id.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sort {
    #[default]
    Name,
    CreatedAt,
    UpdatedAt,
}

/// Filter, order and page of a list of integrations.
#[derive(Clone, Debug, Default)]
pub struct IntegrationQuery {
    /// Substring of the name or the slug, ignoring case.
    pub search: Option<String>,
    pub enabled: Option<bool>,
    pub kind: Option<IntegrationKind>,
    pub sort: Sort,
    pub is_descending: bool,
    pub offset: usize,
    /// 50 by default, 200 at most.
    pub limit: Option<usize>,
}

/// Filter, order and page of a list of agents. Users see only their own agents.
#[derive(Clone, Debug, Default)]
pub struct AgentQuery {
    /// Substring of the name, ignoring case.
    pub search: Option<String>,
    pub sort: Sort,
    pub is_descending: bool,
    pub offset: usize,
    /// 50 by default, 200 at most.
    pub limit: Option<usize>,
}

/// A page of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T> {
    pub items: Vec<T>,
    /// Number of items on all pages.
    pub total: usize,
}

impl Registry {
    /// Returns integrations of the actor's organisation.
    pub fn list_integrations(&self, actor: &Actor, query: &IntegrationQuery) -> Page<Integration> {
        let state = self.state(&actor.organisation);
        let search = query.search.as_deref().map(field::name_key);
        let mut found = Vec::new();
        for integration in &state.integrations {
            let is_wanted = query.enabled.unwrap_or(integration.enabled) == integration.enabled
                && query.kind.unwrap_or(integration.kind) == integration.kind
                && matches_search(search.as_deref(), &[&integration.name, &integration.slug]);
            if is_wanted {
                found.push(integration);
            }
        }
        match query.sort {
            Sort::Name => found.sort_by_cached_key(|one| (field::name_key(&one.name), &one.id)),
            Sort::CreatedAt => found.sort_by_key(|one| (one.created_at, &one.id)),
            Sort::UpdatedAt => found.sort_by_key(|one| (one.updated_at, &one.id)),
        }
        if query.is_descending {
            found.reverse();
        }
        page(&found, query.offset, query.limit)
    }

    /// Returns an integration of the actor's organisation.
    ///
    /// # Errors
    /// [`RegistryError::IntegrationNotFound`].
    pub fn integration(&self, actor: &Actor, id: &str) -> Result<Integration, RegistryError> {
        let state = self.state(&actor.organisation);
        state.find_integration(id).cloned().ok_or(RegistryError::IntegrationNotFound)
    }

    /// Returns whether an organisation has an integration, enabled or not, with this method of
    /// authentication.
    pub fn has_auth(&self, organisation: &str, id: &str, auth: &Auth) -> bool {
        let state = self.state(organisation);
        state.find_integration(id).is_some_and(|integration| integration.auth == *auth)
    }

    /// Returns agents of the actor's organisation; for a user, only the user's own.
    pub fn list_agents(&self, actor: &Actor, query: &AgentQuery) -> Page<Agent> {
        let state = self.state(&actor.organisation);
        let search = query.search.as_deref().map(field::name_key);
        let mut found = Vec::new();
        for known in &state.snapshot.agents {
            let agent = &known.agent;
            if actor.may_touch(&agent.owner) && matches_search(search.as_deref(), &[&agent.name]) {
                found.push(agent);
            }
        }
        match query.sort {
            Sort::Name => found.sort_by_cached_key(|one| (field::name_key(&one.name), &one.id)),
            Sort::CreatedAt => found.sort_by_key(|one| (one.created_at, &one.id)),
            Sort::UpdatedAt => found.sort_by_key(|one| (one.updated_at, &one.id)),
        }
        if query.is_descending {
            found.reverse();
        }
        page(&found, query.offset, query.limit)
    }

    /// Returns an agent of the actor's organisation.
    ///
    /// # Errors
    /// [`RegistryError::AgentNotFound`], also for an agent of another user.
    pub fn agent(&self, actor: &Actor, id: &str) -> Result<Agent, RegistryError> {
        Ok(self.state(&actor.organisation).find_agent(actor, id)?.agent.clone())
    }

    /// Returns the integrations assigned to an agent, in the order of assignment.
    ///
    /// # Errors
    /// [`RegistryError::AgentNotFound`].
    pub fn list_assigned(
        &self,
        actor: &Actor,
        agent: &str,
    ) -> Result<Vec<Integration>, RegistryError> {
        let state = self.state(&actor.organisation);
        let servers = state.find_agent(actor, agent)?.servers.iter();
        let assigned = servers.filter_map(|id| state.find_integration(id));
        Ok(assigned.cloned().collect())
    }

    /// Returns the servers of an agent that are assigned or have hidden tools.
    ///
    /// # Errors
    /// [`RegistryError::AgentNotFound`].
    pub fn list_agent_servers(
        &self,
        actor: &Actor,
        agent: &str,
    ) -> Result<Vec<AgentServer>, RegistryError> {
        let state = self.state(&actor.organisation);
        let found = state.find_agent(actor, agent)?;
        let mut hidden = found.hidden.clone();
        let mut servers = Vec::new();
        for server in &found.servers {
            let tools = hidden.remove(server).unwrap_or_default();
            servers.push(describe(agent, server, true, tools));
        }
        for (server, tools) in hidden {
            servers.push(describe(agent, &server, false, tools));
        }
        Ok(servers)
    }

    /// Returns the ids of an organisation's agents that have an integration, sorted.
    pub fn agents_with(&self, organisation: &str, integration: &str) -> Vec<String> {
        let state = self.state(organisation);
        let mut agents = Vec::new();
        for known in &state.snapshot.agents {
            if known.servers.iter().any(|id| id == integration) {
                agents.push(known.agent.id.clone());
            }
        }
        agents.sort();
        agents
    }

    /// Returns the integrations that can be assigned to an agent: enabled, and not yet assigned.
    ///
    /// # Errors
    /// [`RegistryError::AgentNotFound`].
    pub fn list_available(
        &self,
        actor: &Actor,
        agent: &str,
    ) -> Result<Vec<Integration>, RegistryError> {
        let state = self.state(&actor.organisation);
        let assigned = &state.find_agent(actor, agent)?.servers;
        let mut available = Vec::new();
        for integration in &state.integrations {
            if integration.enabled && !assigned.contains(&integration.id) {
                available.push(integration.clone());
            }
        }
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

fn matches_search(search: Option<&str>, texts: &[&str]) -> bool {
    let Some(search) = search else { return true };
    texts.iter().any(|text| field::name_key(text).contains(search))
}

fn page<T: Clone>(found: &[&T], offset: usize, limit: Option<usize>) -> Page<T> {
    let limit = limit.unwrap_or(DEFAULT_PAGE).min(MAX_PAGE);
    let mut items = Vec::new();
    for item in found.iter().skip(offset).take(limit) {
        items.push(T::clone(item));
    }
    Page { items, total: found.len() }
}
