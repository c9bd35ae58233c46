//! Calls per integration and day: stored for the API, and shown to members of the organisation.

use std::time::{SystemTime, UNIX_EPOCH};

use lockgate_store::{DailyCalls, KEPT_DAYS, StoreError};

use crate::actor::Actor;
use crate::error::RegistryError;
use crate::registry::Registry;

const SECONDS_PER_DAY: u64 = 86_400;

impl Registry {
    /// Adds to the stored counts.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn add_calls(&self, counts: &[DailyCalls]) -> Result<(), StoreError> {
        self.store.add_calls(counts, today()).await
    }

    /// Returns the counts of an integration for the last `days` days, including today. Days without
    /// calls are omitted.
    ///
    /// # Errors
    /// [`RegistryError`].
    pub async fn list_calls(
        &self,
        actor: &Actor,
        integration: &str,
        days: i64,
    ) -> Result<Vec<DailyCalls>, RegistryError> {
        self.integration(actor, integration)?;
        let after = today() - days.clamp(1, KEPT_DAYS);
        let of = (&*actor.organisation, integration);
        Ok(self.noting(self.store.list_calls(of, after).await)?)
    }
}

/// Returns the number of days since 1970, in UTC.
fn today() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_secs() / SECONDS_PER_DAY).unwrap_or(0)
}
