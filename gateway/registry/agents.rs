//! Operations on agents: create, change, delete, and on their servers: assigned integrations of the
//! same organisation and servers of the operator, and tools that are hidden from an agent. Users
//! manage their own agents, administrators all agents of their organisation.

use std::collections::BTreeMap;

use lockgate_admission::Role;
use lockgate_store::{Agent, Change, is_integration};
use serde::{Deserialize, Serialize};

use crate::actor::{Actor, ChangeOptions, Changed};
use crate::change::{Digest, begin, check_version, find_integration, new_id};
use crate::error::{InvalidField, RegistryError, Result};
use crate::field;
use crate::objects::{AgentPatch, Integration};
use crate::registry::Registry;

/// Maximum number of agents per organisation.
const MAX_AGENTS: usize = 10_000;
const AGENTS_PER_OWNER: usize = 100;
/// Maximum length of the chosen items of an agent as JSON, in bytes.
const MAX_ITEMS: usize = 16 * 1024;
const ASSIGNED_PER_AGENT: usize = 256;
/// Maximum number of tools hidden from one agent.
const HIDDEN_PER_AGENT: usize = 2000;
/// Maximum number of assignments per organisation.
const MAX_ASSIGNMENTS: usize = 50_000;

impl Registry {
    /// Creates an agent that the actor owns.
    pub async fn create_agent(
        &self,
        actor: &Actor,
        name: &str,
        options: &ChangeOptions,
    ) -> Result<Changed<Agent>> {
        let digest = Digest::new("create agent", &name);
        let name = field::name(name)?;
        let mut pending = begin!(self, actor, options, digest, (None, None));
        let (own, all) = pending.change.count_agents(&actor.principal).await?;
        if own >= AGENTS_PER_OWNER {
            let most = AGENTS_PER_OWNER;
            return Err(RegistryError::TooMany { what: "agents of one owner", most });
        }
        if all >= MAX_AGENTS {
            return Err(RegistryError::TooMany { what: "agents", most: MAX_AGENTS });
        }
        let now = pending.change.now();
        let record = Agent {
            id: new_id("agt_")?,
            organisation: actor.organisation.to_string(),
            name_key: field::name_key(&name),
            name,
            owner_issuer: actor.principal.issuer.to_string(),
            owner_subject: actor.principal.subject.to_string(),
            tools: String::new(),
            items: String::new(),
            version: 1,
            created_at: now,
            updated_at: now,
        };
        refuse_taken_name(&mut pending.change, &record).await?;
        pending.change.insert_agent(&record).await?;
        let changed = Changed::new(None, Some(record));
        self.finish(pending, actor, options, changed).await
    }

    /// Changes the name of an agent, the form of its list of tools, or the choice of its items. The
    /// caller of the registry checks the items.
    pub async fn change_agent(
        &self,
        actor: &Actor,
        id: &str,
        patch: AgentPatch,
        options: &ChangeOptions,
    ) -> Result<Changed<Agent>> {
        let digest = Digest::new("change agent", &(id, &patch));
        let name = patch.name.as_deref().map(field::name).transpose()?;
        if patch.items.as_ref().is_some_and(|items| items.len() > MAX_ITEMS) {
            let message = format!("must not have more than {MAX_ITEMS} bytes as JSON");
            return Err(InvalidField::new("/items", message, "use wider patterns").into());
        }
        let mut pending = begin!(self, actor, options, digest, (Some(id), None));
        let mut record = find_agent(&mut pending.change, actor, id).await?;
        check_version(options, record.version)?;
        let before = record.clone();
        if let Some(name) = name {
            record.name_key = field::name_key(&name);
            record.name = name;
        }
        record.tools = patch.tools.unwrap_or(record.tools);
        record.items = patch.items.unwrap_or(record.items);
        record.version += 1;
        record.updated_at = pending.change.now();
        refuse_taken_name(&mut pending.change, &record).await?;
        pending.change.update_agent(&record).await?;
        let changed = Changed::new(Some(before), Some(record));
        self.finish(pending, actor, options, changed).await
    }

    /// Deletes an agent, and with it its endpoint.
    pub async fn delete_agent(
        &self,
        actor: &Actor,
        id: &str,
        options: &ChangeOptions,
    ) -> Result<Changed<Agent>> {
        let digest = Digest::new("delete agent", &id);
        let mut pending = begin!(self, actor, options, digest, (Some(id), None));
        let record = find_agent(&mut pending.change, actor, id).await?;
        check_version(options, record.version)?;
        pending.change.delete_agent(id).await?;
        let changed = Changed::new(Some(record), None);
        self.finish(pending, actor, options, changed).await
    }

    /// Assigns an integration to an agent.
    pub async fn assign(
        &self,
        actor: &Actor,
        agent: &str,
        integration: &str,
        options: &ChangeOptions,
    ) -> Result<Changed<Assignment>> {
        let digest = Digest::new("assign", &(agent, integration));
        let wanted = (Some(agent), Some(integration));
        let mut pending = begin!(self, actor, options, digest, wanted);
        find_agent(&mut pending.change, actor, agent).await?;
        let Some(record) = pending.change.find_integration(integration).await? else {
            let is_operator = actor.role == Role::Operator;
            if is_operator && pending.change.is_integration_anywhere(integration).await? {
                return Err(RegistryError::WrongOrganization);
            }
            return Err(RegistryError::IntegrationNotFound);
        };
        if !record.enabled {
            return Err(RegistryError::Disabled);
        }
        self.refuse_too_many(&mut pending.change, actor, agent).await?;
        if !pending.change.assign(agent, integration).await? {
            return Err(RegistryError::AlreadyAssigned);
        }
        let integration = self.show(&record);
        let assignment = Assignment { agent: agent.to_owned(), integration };
        self.finish(pending, actor, options, Changed::new(None, Some(assignment))).await
    }

    /// Assigns or unassigns a server of an agent, and hides or shows tools of it. The caller of the
    /// registry checks that the actor sees a server of the operator, and its tools.
    pub async fn change_agent_server(
        &self,
        actor: &Actor,
        agent: &str,
        server: &str,
        wanted: AgentServerChange,
        options: &ChangeOptions,
    ) -> Result<Changed<AgentServer>> {
        let digest = Digest::new("agent server", &(agent, server, &wanted));
        let mut pending = begin!(self, actor, options, digest, (Some(agent), None));
        let change = &mut pending.change;
        find_agent(change, actor, agent).await?;
        let is_enabled = !is_integration(server) || find_integration(change, server).await?.enabled;
        let before = find_agent_server(change, agent, server).await?;
        match wanted.is_assigned {
            Some(true) if !before.is_assigned => {
                if !is_enabled {
                    return Err(RegistryError::Disabled);
                }
                self.refuse_too_many(change, actor, agent).await?;
                change.assign(agent, server).await?;
            }
            Some(false) => drop(change.unassign(agent, server).await?),
            _ => {}
        }
        for (tool, is_on) in &wanted.tools {
            change.set_tool_hidden(agent, server, tool, !is_on).await?;
        }
        if change.count_hidden_tools(agent).await? > HIDDEN_PER_AGENT {
            let what = "hidden tools of one agent";
            return Err(RegistryError::TooMany { what, most: HIDDEN_PER_AGENT });
        }
        let after = find_agent_server(change, agent, server).await?;
        self.finish(pending, actor, options, Changed::new(Some(before), Some(after))).await
    }

    /// Enforces the limits per agent and per organisation, because each is read as a whole.
    async fn refuse_too_many(
        &self,
        change: &mut Change<'_>,
        actor: &Actor,
        agent: &str,
    ) -> Result<()> {
        if change.count_assigned(agent).await? >= ASSIGNED_PER_AGENT {
            let what = "servers of one agent";
            return Err(RegistryError::TooMany { what, most: ASSIGNED_PER_AGENT });
        }
        // Counts the last known state in memory: other changes wait for this transaction.
        let state = self.state(&actor.organisation);
        let all: usize = state.snapshot.agents.iter().map(|known| known.servers.len()).sum();
        if all >= MAX_ASSIGNMENTS {
            return Err(RegistryError::TooMany { what: "assignments", most: MAX_ASSIGNMENTS });
        }
        Ok(())
    }

    /// Removes an integration from an agent.
    pub async fn unassign(
        &self,
        actor: &Actor,
        agent: &str,
        integration: &str,
        options: &ChangeOptions,
    ) -> Result<Changed<Assignment>> {
        let digest = Digest::new("unassign", &(agent, integration));
        let wanted = (Some(agent), Some(integration));
        let mut pending = begin!(self, actor, options, digest, wanted);
        find_agent(&mut pending.change, actor, agent).await?;
        let record = find_integration(&mut pending.change, integration).await?;
        if !pending.change.unassign(agent, integration).await? {
            return Err(RegistryError::NotAssigned);
        }
        let integration = self.show(&record);
        let assignment = Assignment { agent: agent.to_owned(), integration };
        self.finish(pending, actor, options, Changed::new(Some(assignment), None)).await
    }
}

/// Returns an agent that the actor may change. Another user's agent is reported as missing.
pub(crate) async fn find_agent(change: &mut Change<'_>, actor: &Actor, id: &str) -> Result<Agent> {
    let found = change.find_agent(id).await?;
    let found = found.filter(|record| actor.may_touch(record));
    found.ok_or(RegistryError::AgentNotFound)
}

async fn refuse_taken_name(change: &mut Change<'_>, record: &Agent) -> Result<()> {
    if change.is_agent_name_taken(record).await? {
        return Err(RegistryError::NameTaken);
    }
    Ok(())
}

/// An integration assigned to an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assignment {
    pub agent: String,
    pub integration: Integration,
}

/// A server of an agent: an integration, or a server of the operator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentServer {
    pub agent: String,
    /// The id of the integration, or the slug of the operator's server.
    pub server: String,
    pub is_assigned: bool,
    /// The server's own names of the tools that the agent cannot list or call.
    pub hidden_tools: Vec<String>,
}

/// A change of a server of an agent.
#[derive(Clone, Debug, Default)]
pub struct AgentServerChange {
    /// `None` for no change.
    pub is_assigned: Option<bool>,
    /// Whether the agent may use a tool, by the tool's own name.
    pub tools: BTreeMap<String, bool>,
}

async fn find_agent_server(
    change: &mut Change<'_>,
    agent: &str,
    server: &str,
) -> Result<AgentServer> {
    Ok(AgentServer {
        agent: agent.to_owned(),
        server: server.to_owned(),
        is_assigned: change.is_assigned(agent, server).await?,
        hidden_tools: change.list_hidden_tools(agent, server).await?,
    })
}
