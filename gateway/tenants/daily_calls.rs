//! Calls of integrations by day, from the gateway to the store, now and then and at the end. What
//! the store does not take is tried again.

use std::time::Duration;

use lockgate_proxy::CallsByDay;
use lockgate_registry::{DailyCalls, StoreError};

use super::Tenants;

/// Between two writes.
const INTERVAL: Duration = Duration::from_secs(5);
/// How long the end waits for the last one.
const LAST_WRITE: Duration = Duration::from_secs(2);

impl Tenants {
    /// Keeps calls by day for as long as it is polled. Never returns.
    pub(super) async fn keep_calls(&self) {
        loop {
            tokio::time::sleep(INTERVAL).await;
            self.write_daily_calls().await;
        }
    }

    /// Keeps the last ones, within a bound.
    pub(super) async fn keep_last_calls(&self) {
        let _ = tokio::time::timeout(LAST_WRITE, self.write_daily_calls()).await;
    }

    async fn write_daily_calls(&self) {
        let taken = self.gateway.take_daily_calls();
        if taken.is_empty() {
            return;
        }
        match self.registry.add_calls(&self.name_integrations(&taken)).await {
            Ok(()) => {}
            // They may have been added: to count them twice would be worse than to lose them.
            Err(error @ StoreError::Unknown(_)) => {
                tracing::warn!(%error, "calls of some seconds may not be counted");
            }
            Err(error) => {
                tracing::debug!(%error, "calls by day wait for the store");
                self.gateway.put_back_daily_calls(taken);
            }
        }
    }

    /// The counts by the ids of integrations; those of integrations that are gone are left out.
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
        // In one order at all gateways, so that they do not wait for each other's rows.
        named.sort_by(|a, b| (&a.integration, a.day).cmp(&(&b.integration, b.day)));
        named
    }
}
