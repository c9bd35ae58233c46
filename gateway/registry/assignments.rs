//! Which integrations an agent has. Who owns the agent assigns; the integration has to be of the
//! same organisation.

use serde::{Deserialize, Serialize};

use crate::actor::{Actor, ChangeOptions, Changed, Role};
use crate::agents::find_agent;
use crate::change::{Begun, Digest};
use crate::error::RegistryError;
use crate::integration::Integration;
use crate::registry::Registry;

/// An integration that an agent has.
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
        let mut pending = match self.begin(actor, options, digest).await? {
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
        if !pending.change.assign(agent, integration).await? {
            return Err(RegistryError::AlreadyAssigned);
        }
        let integration = Integration::from_record(&record);
        let assignment = Assignment { agent: agent.to_owned(), integration };
        self.finish(pending, actor, options, Changed::new(None, Some(assignment))).await
    }

    /// Takes an integration from an agent.
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
        let mut pending = match self.begin(actor, options, digest).await? {
            Begun::Replayed(changed) => return Ok(changed),
            Begun::New(pending) => pending,
        };
        find_agent(&mut pending.change, actor, agent).await?;
        let found = pending.change.find_integration(integration).await?;
        let record = found.ok_or(RegistryError::IntegrationNotFound)?;
        if !pending.change.unassign(agent, integration).await? {
            return Err(RegistryError::NotAssigned);
        }
        let integration = Integration::from_record(&record);
        let assignment = Assignment { agent: agent.to_owned(), integration };
        self.finish(pending, actor, options, Changed::new(Some(assignment), None)).await
    }
}
