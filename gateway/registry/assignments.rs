//! Servers of agents: assigned integrations of the same organisation and servers of the operator,
//! and tools that are hidden from an agent. Changed by the agent's owner.

use std::collections::BTreeMap;

use lockgate_store::Change;
use serde::{Deserialize, Serialize};

use crate::actor::{Actor, ChangeOptions, Changed, Role};
use crate::agents::find_agent;
use crate::change::{Begun, Digest, RequiredRecords, find_integration};
use crate::error::RegistryError;
use crate::integration::Integration;
use crate::registry::Registry;

const ASSIGNED_PER_AGENT: usize = 256;
/// Maximum number of tools hidden from one agent.
const HIDDEN_PER_AGENT: usize = 2000;
/// Maximum number of assignments per organisation.
const MAX_ASSIGNMENTS: usize = 50_000;

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

impl Registry {
    /// Assigns an integration to an agent.
    ///
    /// # Errors
    /// [`RegistryError`].
    pub async fn assign(
        &self,
        actor: &Actor,
        agent: &str,
        integration: &str,
        options: &ChangeOptions,
    ) -> Result<Changed<Assignment>, RegistryError> {
        let digest = Digest::new("assign").part(agent.as_bytes()).part(integration.as_bytes());
        let wanted = RequiredRecords::Both { agent, integration };
        let mut pending = match self.begin(actor, options, digest, wanted).await? {
            Begun::Replayed(changed) => return Ok(changed),
            Begun::New(pending) => pending,
        };
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
    ///
    /// # Errors
    /// [`RegistryError`].
    pub async fn change_agent_server(
        &self,
        actor: &Actor,
        agent: &str,
        server: &str,
        wanted: AgentServerChange,
        options: &ChangeOptions,
    ) -> Result<Changed<AgentServer>, RegistryError> {
        let mut digest = Digest::new("agent server").part(agent.as_bytes());
        digest = digest.part(server.as_bytes());
        digest = digest.part(format!("{:?}", (wanted.is_assigned, &wanted.tools)).as_bytes());
        let mut pending =
            match self.begin(actor, options, digest, RequiredRecords::Agent(agent)).await? {
                Begun::Replayed(changed) => return Ok(changed),
                Begun::New(pending) => pending,
            };
        let change = &mut pending.change;
        find_agent(change, actor, agent).await?;
        let mut integration = None;
        if is_integration(server) {
            integration = Some(find_integration(change, server).await?);
        }
        let before = find_agent_server(change, agent, server).await?;
        match (wanted.is_assigned, &integration) {
            (Some(true), _) if before.is_assigned => {}
            (Some(true), Some(integration)) if !integration.enabled => {
                return Err(RegistryError::Disabled);
            }
            (Some(true), integration) => {
                self.refuse_too_many(change, actor, agent).await?;
                match integration {
                    Some(_) => drop(change.assign(agent, server).await?),
                    None => change.assign_server(agent, server).await?,
                }
            }
            (Some(false), Some(_)) => drop(change.unassign(agent, server).await?),
            (Some(false), None) => change.unassign_server(agent, server).await?,
            (None, _) => {}
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
    ) -> Result<(), RegistryError> {
        if change.count_assigned(agent).await? >= ASSIGNED_PER_AGENT {
            let what = "servers of one agent";
            return Err(RegistryError::TooMany { what, most: ASSIGNED_PER_AGENT });
        }
        // Counts the last known state in memory: other changes wait for this transaction.
        let all: usize = self.state(&actor.organisation).assigned.values().map(Vec::len).sum();
        if all >= MAX_ASSIGNMENTS {
            return Err(RegistryError::TooMany { what: "assignments", most: MAX_ASSIGNMENTS });
        }
        Ok(())
    }

    /// Removes an integration from an agent.
    ///
    /// # Errors
    /// [`RegistryError`].
    pub async fn unassign(
        &self,
        actor: &Actor,
        agent: &str,
        integration: &str,
        options: &ChangeOptions,
    ) -> Result<Changed<Assignment>, RegistryError> {
        let digest = Digest::new("unassign").part(agent.as_bytes()).part(integration.as_bytes());
        let wanted = RequiredRecords::Both { agent, integration };
        let mut pending = match self.begin(actor, options, digest, wanted).await? {
            Begun::Replayed(changed) => return Ok(changed),
            Begun::New(pending) => pending,
        };
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

/// Returns whether a server of an agent is an integration: slugs have no underscore.
pub(crate) fn is_integration(server: &str) -> bool {
    server.starts_with("int_")
}

async fn find_agent_server(
    change: &mut Change<'_>,
    agent: &str,
    server: &str,
) -> Result<AgentServer, RegistryError> {
    Ok(AgentServer {
        agent: agent.to_owned(),
        server: server.to_owned(),
        is_assigned: change.is_assigned(agent, server).await?,
        hidden_tools: change.list_hidden_tools(agent, server).await?,
    })
}
