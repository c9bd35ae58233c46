//! Operations on integrations: create, change, enable, disable, delete. Each validates its input
//! before it accesses the store.

use crate::actor::{Actor, ChangeOptions, Changed};
use crate::change::{Digest, RequiredRecords, begin, check_version, find_integration};
use crate::draft::check_credentials;
use crate::error::RegistryError;
use crate::objects::{Integration, IntegrationPatch, NewIntegration};
use crate::registry::Registry;

impl Registry {
    /// Adds an integration to the actor's organisation, by its address or from the catalogue.
    ///
    /// # Errors
    /// [`RegistryError`].
    pub async fn create_integration(
        &self,
        actor: &Actor,
        new: NewIntegration,
        options: &ChangeOptions,
    ) -> Result<Changed<Integration>, RegistryError> {
        let enabled = Some(new.enabled.unwrap_or(true));
        let new = NewIntegration { enabled, ..new };
        let digest = Digest::new("create integration").integration(&new);
        let digest = digest.secret(new.credentials.as_ref(), &self.vault);
        let draft = self.draft(new)?;
        check_credentials(&draft.auth, draft.credentials.as_ref())?;
        let mut pending = begin!(self, actor, options, digest, RequiredRecords::Nothing);
        let changed = self.insert_draft(&mut pending.change, actor, draft).await?;
        self.finish(pending, actor, options, changed).await
    }

    /// Changes an integration of the actor's organisation.
    ///
    /// # Errors
    /// [`RegistryError`].
    pub async fn patch_integration(
        &self,
        actor: &Actor,
        id: &str,
        patch: IntegrationPatch,
        options: &ChangeOptions,
    ) -> Result<Changed<Integration>, RegistryError> {
        let digest = digest_patch(id, &patch, self);
        let patch = self.check_patch(patch)?;
        let mut pending = begin!(self, actor, options, digest, RequiredRecords::Integration(id));
        let record = find_integration(&mut pending.change, id).await?;
        check_version(options, record.version)?;
        let changed = self.update_record(&mut pending.change, record, patch).await?;
        self.finish(pending, actor, options, changed).await
    }

    /// Enables or disables an integration. Disabled integrations are neither connected nor listed.
    ///
    /// # Errors
    /// [`RegistryError`].
    pub async fn enable_integration(
        &self,
        actor: &Actor,
        id: &str,
        enabled: bool,
        options: &ChangeOptions,
    ) -> Result<Changed<Integration>, RegistryError> {
        let patch = IntegrationPatch { enabled: Some(enabled), ..IntegrationPatch::default() };
        self.patch_integration(actor, id, patch, options).await
    }

    /// Deletes an integration, and removes it from all agents.
    ///
    /// # Errors
    /// [`RegistryError`].
    pub async fn delete_integration(
        &self,
        actor: &Actor,
        id: &str,
        options: &ChangeOptions,
    ) -> Result<Changed<Integration>, RegistryError> {
        let digest = Digest::new("delete integration").part(id.as_bytes());
        let mut pending = begin!(self, actor, options, digest, RequiredRecords::Integration(id));
        let record = find_integration(&mut pending.change, id).await?;
        check_version(options, record.version)?;
        pending.change.delete_integration(id).await?;
        let changed = Changed::new(Some(self.show(&record)), None);
        self.finish(pending, actor, options, changed).await
    }
}

fn digest_patch(id: &str, patch: &IntegrationPatch, registry: &Registry) -> Digest {
    let digest = Digest::new("patch integration")
        .part(id.as_bytes())
        .text(patch.name.as_deref())
        .text(patch.url.as_deref())
        .secret(patch.credentials.as_ref(), &registry.vault)
        .part(format!("{:?}", patch.enabled).as_bytes());
    match &patch.auth {
        Some(auth) => digest.part(auth.method().as_bytes()).text(auth.header()),
        None => digest,
    }
}
