//! Replaces the whole set of an organisation's integrations in a single atomic change.

use std::collections::{BTreeMap, HashSet};

use lockgate_store::{Change, IntegrationRecord, Secret};
use serde::{Deserialize, Serialize};

use crate::actor::{Actor, ChangeOptions, Changed, Warning};
use crate::change::{Digest, begin, check_version};
use crate::draft::{CheckedPatch, Draft, MAX_INTEGRATIONS};
use crate::error::{InvalidField, RegistryError, Result};
use crate::field;
use crate::objects::{Auth, Integration, IntegrationPatch, NewIntegration};
use crate::registry::Registry;
use crate::state::open_sealed;

/// The integrations of a set that differ, as they were before or are now.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IntegrationSet {
    pub integrations: Vec<Integration>,
    /// Slugs of unchanged integrations.
    pub unchanged: Vec<String>,
}

impl AsRef<[Integration]> for IntegrationSet {
    fn as_ref(&self) -> &[Integration] {
        &self.integrations
    }
}

/// A desired integration and its existing record, if any.
struct Step {
    record: Option<IntegrationRecord>,
    draft: Draft,
}

impl Registry {
    /// Returns the version of the set of an organisation's integrations. It changes with each of
    /// their versions.
    pub fn set_version(&self, organisation: &str) -> i64 {
        let state = self.state(organisation);
        let parts = state.integrations.iter();
        write_version(parts.map(|one| (one.id.as_str(), one.version)).collect())
    }

    /// Replaces the integrations of the actor's organisation: adds, updates and deletes. Skips
    /// unchanged integrations.
    ///
    /// # Errors
    /// [`RegistryError`]; for a mistake in an item, [`RegistryError::OfItem`].
    pub async fn replace_integrations(
        &self,
        actor: &Actor,
        wanted: Vec<NewIntegration>,
        options: &ChangeOptions,
    ) -> Result<Changed<IntegrationSet>> {
        if wanted.len() > MAX_INTEGRATIONS {
            return Err(RegistryError::TooMany { what: "integrations", most: MAX_INTEGRATIONS });
        }
        let secrets = wanted.iter().filter_map(|one| one.credentials.as_ref());
        let digest = Digest::new("replace integrations", &wanted).secrets(secrets, &self.vault);
        let mut drafts = Vec::with_capacity(wanted.len());
        for (at, wanted) in wanted.into_iter().enumerate() {
            drafts.push(self.draft(wanted).map_err(|error| error.of_item(at))?);
        }
        let mut pending = begin!(self, actor, options, digest, (None, None));
        let records = pending.change.list_integrations().await?;
        let parts: Vec<_> =
            records.iter().map(|record| (record.id.as_str(), record.version)).collect();
        check_version(options, write_version(parts))?;
        let changed = self.apply_set(&mut pending.change, actor, records, drafts).await?;
        self.finish(pending, actor, options, changed).await
    }

    async fn apply_set(
        &self,
        change: &mut Change<'_>,
        actor: &Actor,
        records: Vec<IntegrationRecord>,
        drafts: Vec<Draft>,
    ) -> Result<Changed<IntegrationSet>> {
        let mut before = IntegrationSet::default();
        let mut after = IntegrationSet::default();
        let (steps, unwanted) = match_drafts(records, drafts)?;
        for record in unwanted {
            change.delete_integration(&record.id).await?;
            before.integrations.push(self.show(&record));
        }
        free_names(change, &steps).await?;
        let mut warnings = Vec::new();
        for (at, Step { record, draft }) in steps.into_iter().enumerate() {
            let changed = match record {
                Some(record) if !self.is_different(&record, &draft) => {
                    after.unchanged.push(record.slug);
                    continue;
                }
                Some(record) => self.update_record(change, record, draft.into_patch()).await,
                None => self.insert_draft(change, actor, draft).await,
            };
            let changed = changed.map_err(|error| error.of_item(at))?;
            before.integrations.extend(changed.before);
            after.integrations.extend(changed.after);
            for Warning { code, pointer, message } in changed.warnings {
                let pointer = format!("/servers/{at}{pointer}");
                warnings.push(Warning { code, pointer, message });
            }
        }
        before.unchanged.clone_from(&after.unchanged);
        let mut changed = Changed::new(Some(before), Some(after));
        changed.warnings = warnings;
        Ok(changed)
    }

    fn is_different(&self, record: &IntegrationRecord, draft: &Draft) -> bool {
        let is_elsewhere = draft.catalogue.is_none()
            && (draft.url != record.url || draft.auth != Auth::of_record(record));
        is_elsewhere
            || draft.name != record.name
            || matches!(draft.enabled, Some(enabled) if enabled != record.enabled)
            || matches!(&draft.credentials, Some(given) if !self.has_secret(record, given))
    }

    /// Returns whether the given credentials are stored, and for the current address.
    fn has_secret(&self, record: &IntegrationRecord, given: &Secret) -> bool {
        let catalogue = self.catalogue();
        if let Some(slug) = &record.catalogue
            && let Some(entry) = catalogue.get(slug)
            && !entry.takes_credentials_of(record)
        {
            return false;
        }
        matches!(open_sealed(record, &self.vault), Ok(stored) if stored == *given)
    }
}

impl Draft {
    /// Returns the patch that gives an existing integration its desired state.
    fn into_patch(self) -> CheckedPatch {
        let (url, auth) = match self.catalogue {
            Some(_) => (None, None),
            None => (Some(self.url), Some(self.auth)),
        };
        let Self { credentials, enabled, .. } = self;
        let name = Some(self.name);
        (IntegrationPatch { name, url, auth, credentials, enabled }, self.warnings)
    }
}

/// Matches desired integrations with existing records. Also returns the records left unmatched.
fn match_drafts(
    records: Vec<IntegrationRecord>,
    drafts: Vec<Draft>,
) -> Result<(Vec<Step>, Vec<IntegrationRecord>)> {
    let mut slugs = HashSet::new();
    let mut names = HashSet::new();
    let mut left: BTreeMap<_, _> =
        records.into_iter().map(|record| (record.slug.clone(), record)).collect();
    let mut steps = Vec::with_capacity(drafts.len());
    for (at, draft) in drafts.into_iter().enumerate() {
        let name_key = field::name_key(&draft.name);
        if let Some(slug) = &draft.slug
            && !slugs.insert(slug.clone())
        {
            let twice = InvalidField::new("/slug", "occurs twice", "list each of them once");
            return Err(RegistryError::from(twice).of_item(at));
        }
        if !names.insert(name_key.clone()) {
            let twice = InvalidField::new("/name", "occurs twice", "give each a different name");
            return Err(RegistryError::from(twice).of_item(at));
        }
        let slug = draft.slug.clone().or_else(|| find_name(&left, &name_key));
        let record = slug.and_then(|slug| left.remove(&slug));
        if matches!(&record, Some(record) if record.catalogue != draft.catalogue) {
            let message = "has another kind, or another entry of the catalogue";
            let way_out = "remove it first, then add it again";
            let other = InvalidField::new("/slug", message, way_out);
            return Err(RegistryError::from(other).of_item(at));
        }
        steps.push(Step { record, draft });
    }
    Ok((steps, left.into_values().collect()))
}

fn find_name(left: &BTreeMap<String, IntegrationRecord>, name_key: &str) -> Option<String> {
    let mut records = left.values();
    let found = records.find(|record| record.name_key == name_key)?;
    Some(found.slug.clone())
}

/// Frees names that other integrations of the set may take.
async fn free_names(change: &mut Change<'_>, steps: &[Step]) -> Result<()> {
    for Step { record, draft } in steps {
        let Some(record) = record else { continue };
        if record.name_key != field::name_key(&draft.name) {
            // No valid name begins with a blank.
            let name_key = format!(" {}", record.id);
            change.update_integration(&IntegrationRecord { name_key, ..record.clone() }).await?;
        }
    }
    Ok(())
}

/// Returns a hash of the ids and versions of a set.
fn write_version(mut parts: Vec<(&str, i64)>) -> i64 {
    parts.sort_unstable();
    let text: String = parts.iter().map(|(id, version)| format!("{id}:{version};")).collect();
    let digest = lockgate_store::digest(text.as_bytes());
    let digits = digest.get(..15).unwrap_or("");
    i64::from_str_radix(digits, 16).unwrap_or(0)
}
