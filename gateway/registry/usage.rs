//! Calls by series and time step, between the gateway and the store. Counts wait here until they
//! are written. While there is no database, queries are answered from these.

use std::collections::BTreeMap;

use lockgate_store::{STATE, StoreError, UsageCounts, UsageFilter, UsageGroup, UsageKey, UsageRow};
use parking_lot::Mutex;

use crate::error::RegistryError;
use crate::registry::Registry;

const HOUR: i64 = 3600;
/// Time steps in seconds, and how long after its start a row is kept.
const STEPS: [(i64, i64); 2] = [(300, 2 * HOUR), (HOUR, 8 * 24 * HOUR)];
/// How long states are kept.
const STATE_KEPT: i64 = 26 * HOUR;
/// Rows in memory. Beyond, the oldest are dropped.
const MAX_ROWS: usize = 20_000;

/// Rows that are not stored yet.
#[derive(Default)]
pub(crate) struct WaitingUsage(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    /// In the order of time.
    rows: BTreeMap<UsageKey, UsageCounts>,
    /// Start of the counts in memory, in seconds since 1970; 0 before the first.
    since: i64,
    /// Time of the last write.
    written: Option<i64>,
}

/// The origin of the figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UsageStanding {
    /// Set if the figures are in memory alone: the start of the count.
    pub since: Option<i64>,
    /// Time of the last write of this gateway to the store.
    pub written: Option<i64>,
}

impl Waiting {
    fn add(&mut self, row: UsageRow) {
        self.rows.entry(row.key).or_default().add(&row.counts);
    }

    /// Drops expired rows, and the oldest beyond the bound.
    fn trim(&mut self, now: i64, most: usize) {
        self.rows.retain(|key, _| find_expiry(key) > now);
        while self.rows.len() > most {
            let Some((key, _)) = self.rows.pop_first() else { return };
            self.since = self.since.max(key.at + key.step);
        }
    }
}

impl WaitingUsage {
    /// Adds counts that ended at `at` to the rows of both time steps; states only to hours.
    fn add(&self, counts: &[(UsageKey, UsageCounts)], at: i64, now: i64) {
        let mut waiting = self.0.lock();
        if waiting.since == 0 {
            waiting.since = at;
        }
        for (key, counts) in counts {
            for (step, _) in STEPS {
                if step == HOUR || key.kind != STATE {
                    let key = UsageKey { at: at - at.rem_euclid(step), step, ..key.clone() };
                    waiting.add(UsageRow { key, counts: counts.clone() });
                }
            }
        }
        waiting.trim(now, MAX_ROWS);
    }

    fn take(&self) -> Vec<(UsageRow, i64)> {
        let mut taken = Vec::new();
        for (key, counts) in std::mem::take(&mut self.0.lock().rows) {
            let expires = find_expiry(&key);
            taken.push((UsageRow { key, counts }, expires));
        }
        taken
    }

    fn put_back(&self, rows: Vec<(UsageRow, i64)>) {
        let mut waiting = self.0.lock();
        for (row, _) in rows {
            waiting.add(row);
        }
    }

    /// Sums the rows by group, as the store does.
    fn sum(&self, group: UsageGroup, filter: &UsageFilter) -> Vec<UsageRow> {
        let mut sums: BTreeMap<UsageKey, UsageCounts> = BTreeMap::new();
        for (key, counts) in &self.0.lock().rows {
            if let Some(group) = filter.find_group(group, key) {
                sums.entry(group).or_default().add(counts);
            }
        }
        let mut rows: Vec<UsageRow> =
            sums.into_iter().map(|(key, counts)| UsageRow { key, counts }).collect();
        if !group.is_by_time() {
            rows.sort_by_key(|row| std::cmp::Reverse(row.counts.calls));
        }
        rows.truncate(group.limit());
        rows
    }
}

fn find_expiry(key: &UsageKey) -> i64 {
    let [(_, short), (_, long)] = STEPS;
    key.at
        + match key.step {
            HOUR if key.kind == STATE => STATE_KEPT,
            HOUR => long,
            _ => short,
        }
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
            // There is no database yet.
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
    #[must_use]
    pub fn usage_standing(&self) -> UsageStanding {
        let waiting = self.waiting_usage.0.lock();
        let since = match self.store.exists() {
            Ok(false) => Some(waiting.since),
            _ => None,
        };
        UsageStanding { since, written: waiting.written }
    }
}

#[cfg(test)]
mod tests;
