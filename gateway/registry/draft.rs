//! Validated integrations and patches: checked as far as possible without the store, then written
//! within a change. Shared by all operations that write integrations.

use std::collections::BTreeSet;

use lockgate_store::{Change, IntegrationRecord, Secret};

use crate::actor::{Actor, Changed, Warning};
use crate::change::new_id;
use crate::error::{InvalidField, RegistryError, Result};
use crate::field::{self, SLUG_CHARS};
use crate::objects::{
    Auth, Integration, IntegrationKind, IntegrationPatch, NewIntegration, Origin, find_entry,
};
use crate::registry::Registry;
use crate::state::{name_field, place_field};

/// Maximum number of integrations per organisation.
pub(crate) const MAX_INTEGRATIONS: usize = 1000;

/// A validated new integration.
pub(crate) struct Draft {
    pub(crate) name: String,
    pub(crate) slug: Option<String>,
    /// The slug of the catalogue entry.
    pub(crate) catalogue: Option<String>,
    pub(crate) url: String,
    pub(crate) auth: Auth,
    pub(crate) credentials: Option<Secret>,
    /// `None` keeps the current value; new integrations are enabled.
    pub(crate) enabled: Option<bool>,
    source: Option<String>,
    pub(crate) warnings: Vec<Warning>,
}

/// A validated patch, and its warnings.
pub(crate) type CheckedPatch = (IntegrationPatch, Vec<Warning>);

impl Registry {
    /// Returns a record as callers may see it.
    pub(crate) fn show(&self, record: &IntegrationRecord) -> Integration {
        Integration::from_record(record, &self.catalogue())
    }

    /// Validates a new integration. Credentials may be missing, because a set keeps stored ones.
    pub(crate) fn draft(&self, new: NewIntegration) -> Result<Draft> {
        let NewIntegration { name, slug, origin, credentials, enabled, source } = new;
        let slug = slug.as_deref().map(field::slug).transpose()?;
        let (name, catalogue, url, auth, warnings) = match origin {
            Origin::Custom { url, auth } => {
                let name = field::name(name.as_deref().unwrap_or(""))?;
                let (url, warnings) = self.check_url(&url)?;
                (name, None, url, auth.checked()?, warnings)
            }
            Origin::Predefined(entry) => {
                let catalogue = self.catalogue();
                let found = catalogue.get(&entry).ok_or(RegistryError::EntryNotFound)?;
                let name = field::name(name.as_deref().unwrap_or(&found.title))?;
                (name, Some(entry), found.url.to_string(), found.auth.clone(), Vec::new())
            }
        };
        if credentials.is_some() {
            check_credentials(&auth, credentials.as_ref())?;
        }
        Ok(Draft { name, slug, catalogue, url, auth, credentials, enabled, source, warnings })
    }

    pub(crate) fn check_patch(&self, patch: IntegrationPatch) -> Result<CheckedPatch> {
        let name = patch.name.as_deref().map(field::name).transpose()?;
        let checked = patch.url.as_deref().map(|given| self.check_url(given)).transpose()?;
        let (url, warnings) = checked.unzip();
        let auth = patch.auth.map(|auth| auth.checked()).transpose()?;
        if let Some(secret) = &patch.credentials {
            field::credentials(secret)?;
        }
        Ok((IntegrationPatch { name, url, auth, ..patch }, warnings.unwrap_or_default()))
    }

    pub(crate) async fn insert_draft(
        &self,
        change: &mut Change<'_>,
        actor: &Actor,
        draft: Draft,
    ) -> Result<Changed<Integration>> {
        check_credentials(&draft.auth, draft.credentials.as_ref())?;
        let base = draft.catalogue.as_ref().unwrap_or(&draft.name);
        let slug = self.choose_slug(change, draft.slug, base).await?;
        let now = change.now();
        let is_predefined = draft.catalogue.is_some();
        let kind =
            if is_predefined { IntegrationKind::Predefined } else { IntegrationKind::Custom };
        let mut record = IntegrationRecord {
            id: new_id("int_")?,
            organisation: actor.organisation.to_string(),
            slug,
            name_key: field::name_key(&draft.name),
            name: draft.name,
            kind: kind.as_str().to_owned(),
            catalogue: draft.catalogue,
            source: draft.source,
            url: draft.url,
            auth: draft.auth.method().to_owned(),
            auth_header: draft.auth.header().map(str::to_owned),
            sealed: None,
            enabled: draft.enabled.unwrap_or(true),
            version: 1,
            created_at: now,
            updated_at: now,
        };
        if let Some(secret) = &draft.credentials {
            record.sealed = Some(self.seal(&record, secret)?);
        }
        refuse_taken_name(change, &record).await?;
        change.insert_integration(&record).await?;
        let mut changed = Changed::new(None, Some(self.show(&record)));
        changed.warnings = draft.warnings;
        Ok(changed)
    }

    /// Applies a patch to an integration and writes the record.
    pub(crate) async fn update_record(
        &self,
        change: &mut Change<'_>,
        mut record: IntegrationRecord,
        (patch, warnings): CheckedPatch,
    ) -> Result<Changed<Integration>> {
        let before = record.clone();
        if let Some(name) = patch.name {
            record.name_key = field::name_key(&name);
            record.name = name;
        }
        record.enabled = patch.enabled.unwrap_or(record.enabled);
        match record.catalogue {
            Some(_) => {
                refuse_place(patch.url.as_deref(), patch.auth.as_ref())?;
                self.reseal_predefined(&mut record, patch.credentials.as_ref())?;
            }
            None => {
                record.url = patch.url.unwrap_or(record.url);
                let auth = patch.auth.unwrap_or_else(|| Auth::of_record(&before));
                self.reseal(&mut record, &before, &auth, patch.credentials.as_ref())?;
            }
        }
        if record.url != before.url {
            record.source = None;
        }
        record.version += 1;
        record.updated_at = change.now();
        refuse_taken_name(change, &record).await?;
        change.update_integration(&record).await?;
        let is_same_server = record.url == before.url
            && record.auth == before.auth
            && record.auth_header == before.auth_header;
        if is_same_server && patch.credentials.is_none() {
            change.carry_lists(&record.id, before.version, record.version).await?;
        }
        let mut changed = Changed::new(Some(self.show(&before)), Some(self.show(&record)));
        changed.warnings = warnings;
        Ok(changed)
    }

    fn check_url(&self, text: &str) -> Result<(String, Vec<Warning>)> {
        let (url, warnings) = field::url(text)?;
        (self.check_url)(&url)?;
        Ok((url.into(), warnings))
    }

    /// Returns the requested slug if it is free, or a free slug derived from `base`.
    async fn choose_slug(
        &self,
        change: &mut Change<'_>,
        wanted: Option<String>,
        base: &str,
    ) -> Result<String> {
        let own = change.list_slugs().await?;
        if own.len() >= MAX_INTEGRATIONS {
            return Err(RegistryError::TooMany { what: "integrations", most: MAX_INTEGRATIONS });
        }
        let mut taken: BTreeSet<String> = self.shared_slugs();
        taken.extend(own);
        match wanted {
            Some(slug) if taken.contains(&slug) => Err(RegistryError::SlugTaken(slug)),
            Some(slug) => Ok(slug),
            None => Ok(derive_slug(base, &taken)),
        }
    }

    /// Updates the sealed credentials for the current address and authentication method.
    fn reseal(
        &self,
        record: &mut IntegrationRecord,
        before: &IntegrationRecord,
        auth: &Auth,
        given: Option<&Secret>,
    ) -> Result<()> {
        record.auth = auth.method().to_owned();
        record.auth_header = auth.header().map(str::to_owned);
        match (auth, given) {
            (_, None) if !auth.needs_credentials() => record.sealed = None,
            (_, Some(secret)) => {
                check_credentials(auth, Some(secret))?;
                record.sealed = Some(self.seal(record, secret)?);
            }
            (_, None) => refuse_elsewhere(before, record)?,
        }
        Ok(())
    }

    /// Seals given credentials for the current entry. Without them, the record stays bound to the
    /// entry that its credentials were given for.
    fn reseal_predefined(
        &self,
        record: &mut IntegrationRecord,
        given: Option<&Secret>,
    ) -> Result<()> {
        let Some(secret) = given else { return Ok(()) };
        let catalogue = self.catalogue();
        let entry = find_entry(&catalogue, record).ok_or(RegistryError::EntryNotFound)?;
        check_credentials(&entry.auth, Some(secret))?;
        record.url = entry.url.to_string();
        record.auth = entry.auth.method().to_owned();
        record.auth_header = entry.auth.header().map(str::to_owned);
        record.sealed = Some(self.seal(record, secret)?);
        Ok(())
    }

    fn seal(&self, record: &IntegrationRecord, secret: &Secret) -> Result<Vec<u8>> {
        let field = need_field(record)?;
        Ok(self.vault.seal(&place_field(record, &field), secret)?)
    }
}

async fn refuse_taken_name(change: &mut Change<'_>, record: &IntegrationRecord) -> Result<()> {
    if change.is_integration_name_taken(record).await? {
        return Err(RegistryError::NameTaken);
    }
    Ok(())
}

/// Rejects an address or method for a predefined integration: the catalogue entry defines both.
fn refuse_place(url: Option<&str>, auth: Option<&Auth>) -> Result<(), InvalidField> {
    let pointer = match (url, auth) {
        (Some(_), _) => "/url",
        (None, Some(_)) => "/auth",
        (None, None) => return Ok(()),
    };
    let message = "is set by the operator's catalogue";
    let way_out = "leave it out, or add a server of your own by its address";
    Err(InvalidField::new(pointer, message, way_out))
}

fn need_field(record: &IntegrationRecord) -> Result<String, InvalidField> {
    let message = "is stored in an invalid form";
    name_field(record).ok_or_else(|| InvalidField::new("/url", message, "set it again"))
}

/// Rejects a changed recipient without new credentials. Otherwise a user with the right to edit an
/// address could send another user's secret to it.
fn refuse_elsewhere(
    before: &IntegrationRecord,
    after: &IntegrationRecord,
) -> Result<(), InvalidField> {
    let field = need_field(after)?;
    if name_field(before) == Some(field) {
        return Ok(());
    }
    let message = "are needed again, because they would be sent to another address";
    let way_out = "give the key or the token for this address";
    Err(InvalidField::new("/credentials", message, way_out))
}

/// Checks that credentials are given if, and only if, the method requires them.
pub(crate) fn check_credentials(auth: &Auth, given: Option<&Secret>) -> Result<(), InvalidField> {
    match given {
        Some(_) if !auth.needs_credentials() => {
            let message = format!("are not sent with the method `{}`", auth.method());
            let way_out = "choose the method `api_key` or `bearer_token`, or leave them out";
            Err(InvalidField::new("/credentials", message, way_out))
        }
        None if !auth.needs_credentials() => Ok(()),
        Some(secret) => field::credentials(secret),
        None => {
            let message = format!("are missing for the method `{}`", auth.method());
            Err(InvalidField::new("/credentials", message, "give the key or the token"))
        }
    }
}

// Slugs of integrations: unique among the operator's servers and the organisation's own, so that
// adding a server never renames another.

/// Fallback for names without ASCII letters or digits.
const PLAIN: &str = "integration";

/// Derives a free slug from a name, with a numeric suffix if necessary.
fn derive_slug(name: &str, taken: &BTreeSet<String>) -> String {
    let mut slug = String::new();
    for c in name.chars() {
        if slug.len() == SLUG_CHARS {
            break;
        }
        if c.is_ascii_alphanumeric() {
            slug.push(c.to_ascii_lowercase());
        } else if !slug.is_empty() && !slug.ends_with('-') {
            slug.push('-');
        }
    }
    let base = slug.trim_end_matches('-');
    let base = if base.is_empty() { PLAIN } else { base };
    if !taken.contains(base) {
        return base.to_owned();
    }
    // One of these numbers is free, because `taken` has fewer entries.
    for number in 2..=taken.len() + 2 {
        let end = format!("-{number}");
        let kept = base.len().min(SLUG_CHARS - end.len());
        let slug = format!("{}{end}", base[..kept].trim_end_matches('-'));
        if !taken.contains(&slug) {
            return slug;
        }
    }
    base.to_owned()
}

#[cfg(test)]
mod tests;
