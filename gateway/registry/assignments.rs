//! Assignments of integrations to agents. The agent's owner assigns; the integration has to be of
//! the same organisation.

use lockgate_store::Change;
use serde::{Deserialize, Serialize};

use crate::actor::{Actor, ChangeOptions, Changed, Role};
use crate::agents::find_agent;
use crate::change::{Begun, Digest, RequiredRecords, find_integration};
use crate::error::RegistryError;
use crate::integration::Integration;
use crate::registry::Registry;

const ASSIGNED_PER_AGENT: usize = 256;
/// Maximum number of assignments per organisation.
const MAX_ASSIGNMENTS: usize = 50_000;

/// An integration assigned to an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assignment {
    pub agent: String,
    pub integration: Integration,
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

    /// Enforces the limits per agent and per organisation, because each is read as a whole.
    async fn refuse_too_many(
        &self,
        change: &mut Change<'_>,
        actor: &Actor,
        agent: &str,
    ) -> Result<(), RegistryError> {
        if change.count_assigned(agent).await? >= ASSIGNED_PER_AGENT {
            let what = "integrations of one agent";
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
