//! Passes counts of calls and states of servers to the registry, periodically and at shutdown, and
//! the calls of integrations by day. Failed writes are retried.

use std::time::Duration;

use lockgate_proxy::{CALL, UsageCount};
use lockgate_registry::{DailyCalls, STATE, StoreError, UsageCounts, UsageKey};
use lockgate_text::date;
use lockgate_upstream::UpstreamState;

use super::{CallsByDay, Tenants};

/// Interval between writes.
const WRITE_INTERVAL: i64 = 5;
/// Timeout of the last write at shutdown.
const LAST_WRITE_TIMEOUT: Duration = Duration::from_secs(2);
/// Interval between samples of the servers' states.
const SAMPLE_INTERVAL: i64 = 60;
/// Servers per sample.
const MAX_SAMPLED: usize = 4000;
/// The shortest time step of usage. No write spans two steps.
const STEP: i64 = 300;
const HOUR: i64 = 3600;
const DAY: i64 = 86_400;

impl Tenants {
    /// Writes counts periodically. Never returns.
    pub(super) async fn keep_usage(&self) {
        let start = now();
        *self.usage.taken.lock() = start;
        // Begins the count.
        self.registry.add_usage(&[], start, start).await;
        loop {
            let now = now();
            let pause = WRITE_INTERVAL.min(STEP - now.rem_euclid(STEP));
            tokio::time::sleep(Duration::from_secs(pause.unsigned_abs())).await;
            self.write_usage().await;
        }
    }

    /// Writes the remaining counts, within a timeout.
    pub(super) async fn keep_last_usage(&self) {
        let _ = tokio::time::timeout(LAST_WRITE_TIMEOUT, self.write_usage()).await;
    }

    async fn write_usage(&self) {
        let now = now();
        // The counts are of the time since the last take.
        let at = std::mem::replace(&mut *self.usage.taken.lock(), now);
        let taken = self.gateway.usage.take();
        if at / HOUR != now / HOUR {
            self.gateway.usage.trim();
        }
        self.count_days(&taken, at / DAY);
        let mut counts: Vec<_> = taken.into_iter().map(convert).collect();
        if at / SAMPLE_INTERVAL != now / SAMPLE_INTERVAL {
            counts.extend(self.sample_states());
        }
        self.registry.add_usage(&counts, at, now).await;
        self.write_daily_calls().await;
    }

    /// Adds the calls of organisations' servers to those by day.
    fn count_days(&self, taken: &[UsageCount], day: i64) {
        let mut daily = self.usage.daily.lock();
        for count in taken {
            if count.kind == CALL
                && let Some((organisation, slug)) = count.server.rsplit_once('/')
            {
                let key = (organisation.to_owned(), slug.to_owned(), day);
                let sum = daily.entry(key).or_default();
                sum.0 += to_i64(count.calls);
                sum.1 += to_i64(count.failed);
            }
        }
    }

    async fn write_daily_calls(&self) {
        let taken = std::mem::take(&mut *self.usage.daily.lock());
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
                let mut daily = self.usage.daily.lock();
                for (key, (calls, failed)) in taken {
                    let sum = daily.entry(key).or_default();
                    sum.0 += calls;
                    sum.1 += failed;
                }
            }
        }
    }

    /// Keys the counts by integration id, and drops those of removed integrations.
    fn name_integrations(&self, counts: &CallsByDay) -> Vec<DailyCalls> {
        let mut named = Vec::with_capacity(counts.len());
        for ((organisation, slug, day), (calls, failed)) in counts {
            let snapshot = self.registry.snapshot(organisation);
            let mut integrations = snapshot.integrations.iter();
            let Some(found) = integrations.find(|one| *one.slug == **slug) else { continue };
            named.push(DailyCalls {
                organisation: organisation.clone(),
                integration: found.id.to_string(),
                day: *day,
                calls: *calls,
                failed: *failed,
            });
        }
        // The same order at all gateways avoids deadlocks between row locks.
        named.sort_by(|a, b| (&a.integration, a.day).cmp(&(&b.integration, b.day)));
        named
    }

    /// Returns a sample of each server that is connected or cannot be.
    fn sample_states(&self) -> Vec<(UsageKey, UsageCounts)> {
        let mut servers = self.gateway.servers();
        for tenant in self.organisations.lock().values() {
            servers
                .extend(tenant.integrations.values().map(|connected| connected.clients.server()));
        }
        let mut samples = Vec::new();
        for server in servers {
            let status = server.status();
            let is_down = match status.state {
                UpstreamState::Connected => status.list_failure.is_some(),
                UpstreamState::Unresponsive | UpstreamState::NeedsAuth | UpstreamState::Failed => {
                    true
                }
                UpstreamState::Pending if status.trouble.is_some() => true,
                UpstreamState::Pending | UpstreamState::Disabled | UpstreamState::Resting => {
                    continue;
                }
            };
            let key = UsageKey {
                kind: STATE.to_owned(),
                organisation: server.organisation().map(ToString::to_string).unwrap_or_default(),
                server: server.qualified_name().into_owned(),
                ..UsageKey::default()
            };
            let failed = i64::from(is_down);
            samples.push((key, UsageCounts { calls: 1, failed, ..UsageCounts::default() }));
            if samples.len() == MAX_SAMPLED {
                break;
            }
        }
        samples
    }
}

fn convert(count: UsageCount) -> (UsageKey, UsageCounts) {
    let counts = UsageCounts {
        calls: to_i64(count.calls),
        failed: to_i64(count.failed),
        durations: count.durations.map(to_i64),
    };
    let key = UsageKey {
        kind: count.kind.to_owned(),
        organisation: count.organisation,
        server: count.server,
        name: count.name,
        issuer: count.issuer,
        subject: count.subject,
        ..UsageKey::default()
    };
    (key, counts)
}

fn to_i64(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Returns the seconds since 1970.
fn now() -> i64 {
    i64::try_from(date::now()).unwrap_or(0)
}
