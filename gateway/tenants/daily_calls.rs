//! Writes the daily call counts of integrations to the store, periodically and at shutdown. Failed
//! writes are retried.

use std::time::Duration;

use lockgate_proxy::CallsByDay;
use lockgate_registry::{DailyCalls, StoreError};

use super::Tenants;

/// Interval between writes.
const WRITE_INTERVAL: Duration = Duration::from_secs(5);
/// Timeout of the last write at shutdown.
const LAST_WRITE_TIMEOUT: Duration = Duration::from_secs(2);

impl Tenants {
    /// Writes daily counts periodically. Never returns.
    pub(super) async fn keep_calls(&self) {
        loop {
            tokio::time::sleep(WRITE_INTERVAL).await;
            self.write_daily_calls().await;
        }
    }

    /// Writes the remaining counts, within a timeout.
    pub(super) async fn keep_last_calls(&self) {
        let _ = tokio::time::timeout(LAST_WRITE_TIMEOUT, self.write_daily_calls()).await;
    }

    async fn write_daily_calls(&self) {
        let taken = self.gateway.take_daily_calls();
        if taken.is_empty() {
            return;
        }
        match self.registry.add_calls(&self.name_integrations(&taken)).await {
            Ok(()) => {}
            // The counts may have been added, and losing them is better than counting them twice.
            Err(error @ StoreError::Unknown(_)) => {
                tracing::warn!(%error, "the calls of a few seconds may not be counted");
            }
            Err(error) => {
                tracing::debug!(%error, "daily call counts are waiting for the store");
                self.gateway.put_back_daily_calls(taken);
            }
        }
    }

    /// Keys the counts by integration id, and drops those of removed integrations.
    fn name_integrations(&self, counts: &CallsByDay) -> Vec<DailyCalls> {
        let mut named = Vec::with_capacity(counts.len());
        for ((server, day), count) in counts {
            let Some(organisation) = &server.organisation else { continue };
            let snapshot = self.registry.snapshot(organisation);
            let mut integrations = snapshot.integrations.iter();
            let Some(found) = integrations.find(|one| *one.slug == *server.slug) else { continue };
            named.push(DailyCalls {
                organisation: organisation.to_string(),
                integration: found.id.to_string(),
                day: i64::try_from(*day).unwrap_or(0),
                calls: i64::try_from(count.calls).unwrap_or(i64::MAX),
                failed: i64::try_from(count.failed).unwrap_or(i64::MAX),
            });
        }
        // The same order at all gateways avoids deadlocks between row locks.
        named.sort_by(|a, b| (&a.integration, a.day).cmp(&(&b.integration, b.day)));
        named
    }
}
