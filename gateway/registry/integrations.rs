//! Operations on integrations: create, change, enable, disable, delete. Each validates its input
//! before it accesses the store.

use crate::actor::{Actor, ChangeOptions, Changed};
use crate::change::{Begun, Digest, RequiredRecords, check_version, find_integration};
use crate::draft::Draft;
use crate::error::RegistryError;
use crate::integration::{Integration, IntegrationPatch, NewIntegration, NewPredefined};
use crate::registry::Registry;

impl Registry {
    /// Adds an integration to the actor's organisation.
    ///
    /// # Errors
    /// [`RegistryError`].
    pub async fn create_integration(
        &self,
        actor: &Actor,
        new: NewIntegration,
        options: &ChangeOptions,
    ) -> Result<Changed<Integration>, RegistryError> {
        let digest = digest_new(&new, self);
        let draft = self.draft_custom(new)?;
        self.create(actor, digest, draft, options).await
    }

    /// Adds an integration from the catalogue to the actor's organisation.
    ///
    /// # Errors
    /// [`RegistryError`].
    pub async fn create_predefined(
        &self,
        actor: &Actor,
        new: NewPredefined,
        options: &ChangeOptions,
    ) -> Result<Changed<Integration>, RegistryError> {
        let digest = Digest::new("create predefined integration")
            .part(new.entry.as_bytes())
            .text(new.name.as_deref())
            .secret(new.credentials.as_ref(), &self.vault)
            .part(&[u8::from(new.enabled)]);
        let draft = self.draft_predefined(new)?;
        self.create(actor, digest, draft, options).await
    }

    async fn create(
        &self,
        actor: &Actor,
        digest: Digest,
        draft: Draft,
        options: &ChangeOptions,
    ) -> Result<Changed<Integration>, RegistryError> {
        let mut pending = match self.begin(actor, options, digest, RequiredRecords::Nothing).await?
        {
            Begun::Replayed(changed) => return Ok(changed),
            Begun::New(pending) => pending,
        };
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
        let mut pending =
            match self.begin(actor, options, digest, RequiredRecords::Integration(id)).await? {
                Begun::Replayed(changed) => return Ok(changed),
                Begun::New(pending) => pending,
            };
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
        let mut pending =
            match self.begin(actor, options, digest, RequiredRecords::Integration(id)).await? {
                Begun::Replayed(changed) => return Ok(changed),
                Begun::New(pending) => pending,
            };
        let record = find_integration(&mut pending.change, id).await?;
        check_version(options, record.version)?;
        pending.change.delete_integration(id).await?;
        let changed = Changed::new(Some(self.show(&record)), None);
        self.finish(pending, actor, options, changed).await
    }
}

fn digest_new(new: &NewIntegration, registry: &Registry) -> Digest {
    Digest::new("create integration")
        .part(new.name.as_bytes())
        .text(new.slug.as_deref())
        .part(new.url.as_bytes())
        .part(new.auth.method().as_bytes())
        .text(new.auth.header())
        .secret(new.credentials.as_ref(), &registry.vault)
        .part(&[u8::from(new.enabled)])
        .text(new.source.as_deref())
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
