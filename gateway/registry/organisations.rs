//! Operations on organisations: create in advance, delete when empty. An organisation named by a
//! credential needs no creation; its first change stores it.

use lockgate_text::organisation::find_mistake;

use crate::actor::{Actor, ChangeOptions, Changed};
use crate::change::{Digest, RequiredRecords, begin};
use crate::error::{InvalidField, RegistryError};
use crate::registry::Registry;
use crate::state::Organisation;

impl Registry {
    /// Returns whether an organisation is stored, according to the state in memory.
    pub fn has_organisation(&self, id: &str) -> bool {
        self.find_organisation(id).is_some()
    }

    /// Creates the actor's organisation.
    pub async fn create_organisation(
        &self,
        actor: &Actor,
        options: &ChangeOptions,
    ) -> Result<Changed<Organisation>, RegistryError> {
        let id = actor.organisation.to_string();
        if let Some(mistake) = find_mistake(&id) {
            return Err(InvalidField::new("/id", mistake, "choose another name").into());
        }
        let digest = Digest::new("create organisation");
        let pending = begin!(self, actor, options, digest, RequiredRecords::Nothing);
        if !pending.change.is_first() {
            return Err(RegistryError::OrganisationExists);
        }
        let created_at = pending.change.now();
        let created = Organisation { id, created_at, integrations: 0, agents: 0 };
        self.finish(pending, actor, options, Changed::new(None, Some(created))).await
    }

    /// Deletes the actor's organisation, which has to be empty.
    pub async fn delete_organisation(
        &self,
        actor: &Actor,
        options: &ChangeOptions,
    ) -> Result<Changed<Organisation>, RegistryError> {
        // An invalid name cannot be stored, so the store is not accessed.
        if find_mistake(&actor.organisation).is_some() {
            return Err(RegistryError::OrganisationNotFound);
        }
        let digest = Digest::new("delete organisation");
        let mut pending = begin!(self, actor, options, digest, RequiredRecords::Nothing);
        if pending.change.is_first() {
            return Err(RegistryError::OrganisationNotFound);
        }
        if !pending.change.delete_organisation().await? {
            return Err(RegistryError::OrganisationNotEmpty);
        }
        let now = pending.change.now();
        let id = actor.organisation.to_string();
        let known = self.find_organisation(&id);
        let empty = Organisation { id, created_at: now, integrations: 0, agents: 0 };
        let changed = Changed::new(Some(known.unwrap_or(empty)), None);
        self.finish(pending, actor, options, changed).await
    }
}
