//! Calls by series and time step, between the gateway and the store.

use lockgate_store::{StoreError, UsageCounts, UsageFilter, UsageGroup, UsageKey, UsageRow};

use crate::error::RegistryError;
use crate::registry::Registry;

/// The origin of the figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UsageStanding {
    /// Set if the figures are in memory alone: the start of the count.
    pub since: Option<i64>,
    /// Time of the last write of this gateway to the store.
    pub written: Option<i64>,
}

impl Registry {
    /// Counts calls, denials and states that ended at `at`, and writes all counts that are not
    /// stored yet. A failed write is retried with the next counts. Times are seconds since 1970.
    pub async fn add_usage(&self, counts: &[(UsageKey, UsageCounts)], at: i64, now: i64) {
        let usage = &self.waiting_usage;
        usage.add(counts, at, now);
        let taken = usage.take();
        if taken.is_empty() {
            return;
        }
        let written = self.store.add_usage(&taken, now).await;
        match written {
            Ok(true) => usage.0.lock().written = Some(now),
            // There is no database yet, and no call to create it for.
            Ok(false) => usage.put_back(taken),
            // The counts may have been added, and losing them is better than counting them twice.
            Err(error @ StoreError::Unknown(_)) => {
                tracing::warn!(%error, "the usage of a few seconds may not be counted");
            }
            Err(error) => {
                tracing::debug!(%error, "usage is waiting for the store");
                usage.put_back(taken);
            }
        }
    }

    /// Returns the selected usage by group, from the store or, while there is none, from memory.
    /// The largest come first, or the earliest.
    ///
    /// # Errors
    /// [`RegistryError`].
    pub async fn sum_usage(
        &self,
        group: UsageGroup,
        filter: &UsageFilter,
    ) -> Result<Vec<UsageRow>, RegistryError> {
        match self.noting(self.store.sum_usage(group, filter).await)? {
            Some(rows) => Ok(rows),
            None => Ok(self.waiting_usage.sum(group, filter)),
        }
    }

    /// Returns the origin of the figures.
    pub fn usage_standing(&self) -> UsageStanding {
        let waiting = self.waiting_usage.0.lock();
        let since = match self.store.exists() {
            Ok(false) => Some(waiting.since),
            _ => None,
        };
        UsageStanding { since, written: waiting.written }
    }
}
