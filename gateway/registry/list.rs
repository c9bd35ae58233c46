//! Lists of an organisation: filtered, sorted and paginated. Everything is read from memory.

use std::collections::BTreeSet;

use lockgate_store::Agent;

use crate::actor::Actor;
use crate::agents::AgentServer;
use crate::error::{RegistryError, Result};
use crate::field;
use crate::objects::{Auth, Integration, IntegrationKind};
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
    pub enabled: Option<bool>,
    pub kind: Option<IntegrationKind>,
    pub page: PageQuery,
}

/// Filter, order and page of a list.
#[derive(Clone, Debug, Default)]
pub struct PageQuery {
    /// Substring of the name, or of the slug of an integration, ignoring case.
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
        let IntegrationQuery { enabled, kind, page: query } = query;
        let state = self.state(&actor.organisation);
        let search = query.search.as_deref().map(field::name_key);
        let found = state.integrations.iter().filter(|integration| {
            enabled.unwrap_or(integration.enabled) == integration.enabled
                && kind.unwrap_or(integration.kind) == integration.kind
                && matches_search(search.as_deref(), &[&integration.name, &integration.slug])
        });
        page(found.collect(), query, |one| (&one.name, &one.id, one.created_at, one.updated_at))
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

    /// Returns agents of the actor's organisation; for a user, only the user's own.
    pub fn list_agents(&self, actor: &Actor, query: &PageQuery) -> Page<Agent> {
        let state = self.state(&actor.organisation);
        let search = query.search.as_deref().map(field::name_key);
        let agents = state.snapshot.agents.iter().map(|known| &known.agent);
        let found = agents.filter(|agent| {
            actor.may_touch(agent) && matches_search(search.as_deref(), &[&agent.name])
        });
        page(found.collect(), query, |one| (&one.name, &one.id, one.created_at, one.updated_at))
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

fn matches_search(search: Option<&str>, texts: &[&str]) -> bool {
    let Some(search) = search else { return true };
    texts.iter().any(|text| field::name_key(text).contains(search))
}

/// Returns a page of the items that were found. `keys` returns the name, the id and the times of an
/// item.
fn page<T: Clone>(
    mut found: Vec<&T>,
    query: &PageQuery,
    keys: impl Fn(&T) -> (&str, &str, i64, i64),
) -> Page<T> {
    found.sort_by_cached_key(|one| {
        let (name, id, created_at, updated_at) = keys(one);
        let id = id.to_owned();
        match query.sort {
            Sort::Name => (field::name_key(name), 0, id),
            Sort::CreatedAt => (String::new(), created_at, id),
            Sort::UpdatedAt => (String::new(), updated_at, id),
        }
    });
    if query.is_descending {
        found.reverse();
    }
    let limit = query.limit.unwrap_or(DEFAULT_PAGE).min(MAX_PAGE);
    let items = found.iter().skip(query.offset).take(limit);
    Page { items: items.map(|item| T::clone(item)).collect(), total: found.len() }
}
