//! Operations on integrations: create, change, enable, disable, delete. Each checks all that it is
//! given before it asks the store for anything.

use std::collections::BTreeSet;

use lockgate_store::{Change, Field, IntegrationRecord, Secret};
use url::Url;

use crate::actor::{Actor, ChangeOptions, Changed, Warning};
use crate::change::{Begun, Digest, check_version, new_id};
use crate::error::{InvalidField, RegistryError};
use crate::field;
use crate::integration::{Auth, Integration, NewIntegration};
use crate::patch::IntegrationPatch;
use crate::registry::Registry;
use crate::slug;
use crate::snapshot::name_field;

/// Most integrations of one organisation.
const INTEGRATIONS: usize = 1000;

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
        let name = field::name(&new.name)?;
        let slug = new.slug.as_deref().map(field::slug).transpose()?;
        let (url, warnings) = self.check_url(&new.url)?;
        let auth = new.auth.checked()?;
        check_credentials(&auth, new.credentials.as_ref())?;
        let mut pending = match self.begin(actor, options, digest).await? {
            Begun::Replayed(changed) => return Ok(changed),
            Begun::New(pending) => pending,
        };
        let slug = self.choose_slug(&mut pending.change, slug, &name).await?;
        let id = new_id("int_")?;
        let now = pending.change.now();
        let mut record = IntegrationRecord {
            id,
            organisation: actor.organisation.to_string(),
            slug,
            name_key: field::name_key(&name),
            name,
            kind: new.kind.as_str().to_owned(),
            catalogue: new.catalogue,
            url: url.to_string(),
            auth: auth.method().to_owned(),
            auth_header: auth.header().map(str::to_owned),
            sealed: None,
            enabled: new.enabled,
            version: 1,
            created_at: now,
            updated_at: now,
        };
        if let Some(secret) = &new.credentials {
            record.sealed = Some(self.seal(&record, &auth, &url, secret)?);
        }
        if pending.change.is_integration_name_taken(&record.name_key, &record.id).await? {
            return Err(RegistryError::NameTaken);
        }
        pending.change.insert_integration(&record).await?;
        let mut changed = Changed::new(None, Some(Integration::from_record(&record)));
        changed.warnings = warnings;
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
        let name = patch.name.as_deref().map(field::name).transpose()?;
        let address = match &patch.url {
            Some(url) => Some(self.check_url(url)?),
            None => None,
        };
        let auth = patch.auth.map(Auth::checked).transpose()?;
        if let Some(secret) = &patch.credentials {
            field::credentials(secret)?;
        }
        let mut pending = match self.begin(actor, options, digest).await? {
            Begun::Replayed(changed) => return Ok(changed),
            Begun::New(pending) => pending,
        };
        let found = pending.change.find_integration(id).await?;
        let mut record = found.ok_or(RegistryError::IntegrationNotFound)?;
        check_version(options, record.version)?;
        let before = Integration::from_record(&record);
        if let Some(name) = name {
            record.name_key = field::name_key(&name);
            record.name = name;
        }
        let mut warnings = Vec::new();
        if let Some((url, said)) = address {
            record.url = url.to_string();
            warnings = said;
        }
        record.enabled = patch.enabled.unwrap_or(record.enabled);
        let auth = auth.unwrap_or_else(|| before.auth.clone());
        self.reseal(&mut record, &before, &auth, patch.credentials.as_ref())?;
        record.version += 1;
        record.updated_at = pending.change.now();
        if pending.change.is_integration_name_taken(&record.name_key, &record.id).await? {
            return Err(RegistryError::NameTaken);
        }
        pending.change.update_integration(&record).await?;
        let mut changed = Changed::new(Some(before), Some(Integration::from_record(&record)));
        changed.warnings = warnings;
        self.finish(pending, actor, options, changed).await
    }

    /// Enables or disables an integration: disabled, nothing connects to it and no list shows it.
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

    /// Takes an integration away, and from all agents.
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
        let mut pending = match self.begin(actor, options, digest).await? {
            Begun::Replayed(changed) => return Ok(changed),
            Begun::New(pending) => pending,
        };
        let found = pending.change.find_integration(id).await?;
        let record = found.ok_or(RegistryError::IntegrationNotFound)?;
        check_version(options, record.version)?;
        pending.change.delete_integration(id).await?;
        let changed = Changed::new(Some(Integration::from_record(&record)), None);
        self.finish(pending, actor, options, changed).await
    }

    /// An address that may be stored, and what should be known of it.
    fn check_url(&self, text: &str) -> Result<(Url, Vec<Warning>), RegistryError> {
        let (url, warnings) = field::url(text)?;
        (self.check_url)(&url)?;
        Ok((url, warnings))
    }

    /// The slug that was asked for, if it is free, or a free one made of the name.
    async fn choose_slug(
        &self,
        change: &mut Change<'_>,
        wanted: Option<String>,
        name: &str,
    ) -> Result<String, RegistryError> {
        let own = change.list_slugs().await?;
        if own.len() >= INTEGRATIONS {
            return Err(RegistryError::TooMany { what: "integrations", most: INTEGRATIONS });
        }
        let mut taken: BTreeSet<String> = self.shared_slugs();
        taken.extend(own);
        match wanted {
            Some(slug) if taken.contains(&slug) => Err(RegistryError::SlugTaken(slug)),
            Some(slug) => Ok(slug),
            None => Ok(slug::derive(name, &taken)),
        }
    }

    /// Brings the sealed credentials in line with where they are sent now.
    fn reseal(
        &self,
        record: &mut IntegrationRecord,
        before: &Integration,
        auth: &Auth,
        given: Option<&Secret>,
    ) -> Result<(), RegistryError> {
        let url = Url::parse(&record.url).map_err(|_| unusable_address())?;
        let old = Url::parse(&before.url).map_err(|_| unusable_address())?;
        record.auth = auth.method().to_owned();
        record.auth_header = auth.header().map(str::to_owned);
        match (auth, given) {
            (Auth::None, None) => record.sealed = None,
            (_, Some(secret)) => {
                check_credentials(auth, Some(secret))?;
                record.sealed = Some(self.seal(record, auth, &url, secret)?);
            }
            // Whoever may change an address must not have a secret sent there that they never knew.
            (_, None) if *auth != before.auth || url.origin() != old.origin() => {
                let message = "are needed again, because they would be sent elsewhere";
                let way_out = "give the key or the token for this address";
                return Err(InvalidField::new("/credentials", message, way_out).into());
            }
            (_, None) => {}
        }
        Ok(())
    }

    fn seal(
        &self,
        record: &IntegrationRecord,
        auth: &Auth,
        url: &Url,
        secret: &Secret,
    ) -> Result<Vec<u8>, RegistryError> {
        let field = name_field(auth, url);
        let place = Field { organisation: &record.organisation, record: &record.id, field: &field };
        Ok(self.vault.seal(&place, secret)?)
    }
}

fn unusable_address() -> InvalidField {
    InvalidField::new("/url", "is stored in a form that is no address", "give it anew")
}

/// Credentials where the method wants them, and only there.
fn check_credentials(auth: &Auth, given: Option<&Secret>) -> Result<(), InvalidField> {
    match (auth, given) {
        (Auth::None, Some(_)) => {
            let way_out = "choose the method `api_key` or `bearer_token`, or leave them out";
            Err(InvalidField::new("/credentials", "are not sent with the method `none`", way_out))
        }
        (Auth::None, None) => Ok(()),
        (_, Some(secret)) => field::credentials(secret),
        (_, None) => {
            let message = format!("are missing for the method `{}`", auth.method());
            Err(InvalidField::new("/credentials", message, "give the key or the token"))
        }
    }
}

fn digest_new(new: &NewIntegration, registry: &Registry) -> Digest {
    Digest::new("create integration")
        .part(new.name.as_bytes())
        .text(new.slug.as_deref())
        .part(new.kind.as_str().as_bytes())
        .text(new.catalogue.as_deref())
        .part(new.url.as_bytes())
        .part(new.auth.method().as_bytes())
        .text(new.auth.header())
        .secret(new.credentials.as_ref(), &registry.vault)
        .part(&[u8::from(new.enabled)])
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
