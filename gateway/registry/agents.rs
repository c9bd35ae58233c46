//! Operations on agents: create, change, delete. Users manage their own agents, administrators all
//! agents of their organisation.

use lockgate_store::{AgentRecord, Change};

use crate::actor::{Actor, ChangeOptions, Changed};
use crate::agent::{Agent, AgentPatch, NewAgent};
use crate::change::{Begun, Digest, RequiredRecords, check_version, new_id, owner};
use crate::error::{InvalidField, RegistryError};
use crate::field;
use crate::registry::Registry;

/// Maximum number of agents per organisation.
const MAX_AGENTS: usize = 10_000;
const AGENTS_PER_OWNER: usize = 100;
/// Maximum length of the chosen items of an agent as JSON, in bytes.
const MAX_ITEMS: usize = 16 * 1024;

impl Registry {
    /// Creates an agent that the actor owns.
    ///
    /// # Errors
    /// [`RegistryError`].
    pub async fn create_agent(
        &self,
        actor: &Actor,
        new: NewAgent,
        options: &ChangeOptions,
    ) -> Result<Changed<Agent>, RegistryError> {
        let name = field::name(&new.name)?;
        let digest = Digest::new("create agent").part(new.name.as_bytes());
        let mut pending = match self.begin(actor, options, digest, RequiredRecords::Nothing).await?
        {
            Begun::Replayed(changed) => return Ok(changed),
            Begun::New(pending) => pending,
        };
        let (own, all) = pending.change.count_agents(owner(&actor.principal)).await?;
        if own >= AGENTS_PER_OWNER {
            let most = AGENTS_PER_OWNER;
            return Err(RegistryError::TooMany { what: "agents of one owner", most });
        }
        if all >= MAX_AGENTS {
            return Err(RegistryError::TooMany { what: "agents", most: MAX_AGENTS });
        }
        let now = pending.change.now();
        let record = AgentRecord {
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
        let changed = Changed::new(None, Some(Agent::from_record(&record)));
        self.finish(pending, actor, options, changed).await
    }

    /// Changes the name of an agent, the form of its list of tools, or the choice of its items. The
    /// caller of the registry checks the items.
    ///
    /// # Errors
    /// [`RegistryError`].
    pub async fn change_agent(
        &self,
        actor: &Actor,
        id: &str,
        patch: AgentPatch,
        options: &ChangeOptions,
    ) -> Result<Changed<Agent>, RegistryError> {
        let digest = Digest::new("change agent").part(id.as_bytes());
        let digest = digest.part(format!("{patch:?}").as_bytes());
        let name = patch.name.as_deref().map(field::name).transpose()?;
        if patch.items.as_ref().is_some_and(|items| items.len() > MAX_ITEMS) {
            let message = format!("must not have more than {MAX_ITEMS} bytes as JSON");
            return Err(InvalidField::new("/items", message, "use wider patterns").into());
        }
        let mut pending =
            match self.begin(actor, options, digest, RequiredRecords::Agent(id)).await? {
                Begun::Replayed(changed) => return Ok(changed),
                Begun::New(pending) => pending,
            };
        let mut record = find_agent(&mut pending.change, actor, id).await?;
        check_version(options, record.version)?;
        let before = Agent::from_record(&record);
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
        let changed = Changed::new(Some(before), Some(Agent::from_record(&record)));
        self.finish(pending, actor, options, changed).await
    }

    /// Deletes an agent, and with it its endpoint.
    ///
    /// # Errors
    /// [`RegistryError`].
    pub async fn delete_agent(
        &self,
        actor: &Actor,
        id: &str,
        options: &ChangeOptions,
    ) -> Result<Changed<Agent>, RegistryError> {
        let digest = Digest::new("delete agent").part(id.as_bytes());
        let mut pending =
            match self.begin(actor, options, digest, RequiredRecords::Agent(id)).await? {
                Begun::Replayed(changed) => return Ok(changed),
                Begun::New(pending) => pending,
            };
        let record = find_agent(&mut pending.change, actor, id).await?;
        check_version(options, record.version)?;
        pending.change.delete_agent(id).await?;
        let changed = Changed::new(Some(Agent::from_record(&record)), None);
        self.finish(pending, actor, options, changed).await
    }
}

/// Returns an agent that the actor may change. Another user's agent is reported as missing.
pub(crate) async fn find_agent(
    change: &mut Change<'_>,
    actor: &Actor,
    id: &str,
) -> Result<AgentRecord, RegistryError> {
    let Some(record) = change.find_agent(id).await? else {
        return Err(RegistryError::AgentNotFound);
    };
    if actor.may_touch(&Agent::from_record(&record).owner) {
        return Ok(record);
    }
    Err(RegistryError::AgentNotFound)
}

async fn refuse_taken_name(
    change: &mut Change<'_>,
    record: &AgentRecord,
) -> Result<(), RegistryError> {
    let own = Agent::from_record(record).owner;
    if change.is_agent_name_taken(owner(&own), &record.name_key, &record.id).await? {
        return Err(RegistryError::NameTaken);
    }
    Ok(())
}
