//! Operations on integrations: create, change, enable, disable, delete, each of which validates its
//! input before it accesses the store; and key rotation, which encrypts all credentials with the
//! first key of the ring, so that the other keys can be removed while gateways run. Also on
//! organisations: create in advance, delete when empty. One named by a credential needs no
//! creation; its first change stores it.

use lockgate_store::{IntegrationRecord, Resealed, StoreError, VaultError};
use lockgate_text::organisation::find_mistake;

use crate::actor::{Actor, ChangeOptions, Changed};
use crate::change::{Digest, begin, check_version, find_integration};
use crate::draft::check_credentials;
use crate::error::{InvalidField, RegistryError, Result};
use crate::objects::{Integration, IntegrationPatch, NewIntegration};
use crate::registry::Registry;
use crate::state::{Organisation, name_field, open_sealed, place_field};

impl Registry {
    /// Adds an integration to the actor's organisation, by its address or from the catalogue.
    pub async fn create_integration(
        &self,
        actor: &Actor,
        new: NewIntegration,
        options: &ChangeOptions,
    ) -> Result<Changed<Integration>> {
        let enabled = Some(new.enabled.unwrap_or(true));
        let new = NewIntegration { enabled, ..new };
        let digest = Digest::new("create integration", &new);
        let digest = digest.secrets(&new.credentials, &self.vault);
        let draft = self.draft(new)?;
        check_credentials(&draft.auth, draft.credentials.as_ref())?;
        let mut pending = begin!(self, actor, options, digest, (None, None));
        let changed = self.insert_draft(&mut pending.change, actor, draft).await?;
        self.finish(pending, actor, options, changed).await
    }

    /// Changes an integration of the actor's organisation.
    pub async fn patch_integration(
        &self,
        actor: &Actor,
        id: &str,
        patch: IntegrationPatch,
        options: &ChangeOptions,
    ) -> Result<Changed<Integration>> {
        let digest = Digest::new("patch integration", &(id, &patch));
        let digest = digest.secrets(&patch.credentials, &self.vault);
        let patch = self.check_patch(patch)?;
        let mut pending = begin!(self, actor, options, digest, (None, Some(id)));
        let record = find_integration(&mut pending.change, id).await?;
        check_version(options, record.version)?;
        let changed = self.update_record(&mut pending.change, record, patch).await?;
        self.finish(pending, actor, options, changed).await
    }

    /// Enables or disables an integration. Disabled integrations are neither connected nor listed.
    pub async fn enable_integration(
        &self,
        actor: &Actor,
        id: &str,
        enabled: bool,
        options: &ChangeOptions,
    ) -> Result<Changed<Integration>> {
        let patch = IntegrationPatch { enabled: Some(enabled), ..IntegrationPatch::default() };
        self.patch_integration(actor, id, patch, options).await
    }

    /// Deletes an integration, and removes it from all agents.
    pub async fn delete_integration(
        &self,
        actor: &Actor,
        id: &str,
        options: &ChangeOptions,
    ) -> Result<Changed<Integration>> {
        let digest = Digest::new("delete integration", &id);
        let mut pending = begin!(self, actor, options, digest, (None, Some(id)));
        let record = find_integration(&mut pending.change, id).await?;
        check_version(options, record.version)?;
        pending.change.delete_integration(id).await?;
        let changed = Changed::new(Some(self.show(&record)), None);
        self.finish(pending, actor, options, changed).await
    }

    /// Encrypts all credentials with the first key. Atomic per organisation.
    ///
    /// # Errors
    /// [`StoreError`], in words for the operator; [`VaultError::NoKey`] without a key.
    pub async fn rotate(&self) -> Result<Resealed, StoreError> {
        if !self.vault.can_seal() {
            return Err(VaultError::NoKey.into());
        }
        self.refresh().await?;
        let mut rotation = Resealed::default();
        for organisation in self.organisations() {
            self.rotate_organisation(&organisation.id, &mut rotation).await?;
        }
        let grants = self.store.reseal_accounts(&self.vault).await?;
        rotation.resealed += grants.resealed;
        rotation.current += grants.current;
        rotation.unusable.extend(grants.unusable);
        self.refresh().await?;
        Ok(rotation)
    }

    async fn rotate_organisation(
        &self,
        organisation: &str,
        rotation: &mut Resealed,
    ) -> Result<(), StoreError> {
        let mut change = self.store.begin(organisation).await?;
        let mut resealed = 0;
        for mut record in change.list_integrations().await? {
            let Some(sealed) = &record.sealed else { continue };
            if self.vault.is_current(sealed) {
                rotation.current += 1;
            } else if let Some(anew) = self.seal_anew(&record)? {
                record.sealed = Some(anew);
                change.update_integration(&record).await?;
                resealed += 1;
            } else {
                rotation.unusable.push(record.id);
            }
        }
        if resealed == 0 {
            return change.roll_back().await;
        }
        change.commit().await?;
        rotation.resealed += resealed;
        Ok(())
    }

    /// Returns `None` if the credentials cannot be decrypted.
    fn seal_anew(&self, record: &IntegrationRecord) -> Result<Option<Vec<u8>>, StoreError> {
        let Some(field) = name_field(record) else { return Ok(None) };
        let Ok(secret) = open_sealed(record, &self.vault) else { return Ok(None) };
        Ok(Some(self.vault.seal(&place_field(record, &field), &secret)?))
    }

    /// Returns whether an organisation is stored, according to the state in memory.
    pub fn has_organisation(&self, id: &str) -> bool {
        self.find_organisation(id).is_some()
    }

    /// Creates the actor's organisation.
    pub async fn create_organisation(
        &self,
        actor: &Actor,
        options: &ChangeOptions,
    ) -> Result<Changed<Organisation>> {
        let id = actor.organisation.to_string();
        if let Some(mistake) = find_mistake(&id) {
            return Err(InvalidField::new("/id", mistake, "choose another name").into());
        }
        let digest = Digest::new("create organisation", &());
        let pending = begin!(self, actor, options, digest, (None, None));
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
    ) -> Result<Changed<Organisation>> {
        // An invalid name cannot be stored, so the store is not accessed.
        if find_mistake(&actor.organisation).is_some() {
            return Err(RegistryError::OrganisationNotFound);
        }
        let digest = Digest::new("delete organisation", &());
        let mut pending = begin!(self, actor, options, digest, (None, None));
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
