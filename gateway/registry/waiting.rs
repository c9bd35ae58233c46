//! Write-behind buffers: lists of integrations, of which frequent changes become a single write,
//! and calls by series and time step, from which queries are answered while there is no database.
//! Callers never wait for the store, and its errors are only logged.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use lockgate_store::{
    KnownLists, MAX_LISTS, STATE, Store, UsageCounts, UsageFilter, UsageGroup, UsageKey, UsageRow,
};
use parking_lot::Mutex;
use tokio::sync::Notify;

/// How long lists are held back for newer lists.
const HOLD_BACK_PERIOD: Duration = Duration::from_secs(3);
/// Maximum number of waiting bytes; further lists are dropped.
const MAX_WAITING: usize = 32 << 20;
/// Timeout of the final write at shutdown.
const FINAL_WRITE_TIMEOUT: Duration = Duration::from_secs(2);

#[derive(Default)]
pub(crate) struct WaitingLists {
    waiting: Mutex<HashMap<String, KnownLists>>,
    come: Notify,
}

impl WaitingLists {
    pub(crate) fn add(&self, lists: KnownLists) {
        let mut waiting = self.waiting.lock();
        let mut bytes = lists.content.len();
        for other in waiting.values() {
            if other.integration != lists.integration {
                bytes += other.content.len();
            }
        }
        if lists.content.len() > MAX_LISTS || bytes > MAX_WAITING {
            let integration = lists.integration;
            tracing::debug!(integration, bytes, "its lists are not kept: there are too many");
            return;
        }
        waiting.insert(lists.integration.clone(), lists);
        self.come.notify_one();
    }

    /// Moves the waiting lists of an integration from its version `old` to `new`.
    pub(crate) fn carry(&self, integration: &str, old: i64, new: i64) {
        if let Some(lists) = self.waiting.lock().get_mut(integration)
            && lists.version == old
        {
            lists.version = new;
        }
    }

    fn take(&self) -> Vec<KnownLists> {
        let waiting = std::mem::take(&mut *self.waiting.lock());
        waiting.into_values().collect()
    }

    /// Writes lists as they are added. Never returns.
    pub(crate) async fn write_all(&self, store: &Store) {
        loop {
            self.come.notified().await;
            tokio::time::sleep(HOLD_BACK_PERIOD).await;
            self.write(store).await;
        }
    }

    async fn write(&self, store: &Store) {
        let all = self.take();
        if all.is_empty() {
            return;
        }
        if let Err(error) = store.keep_lists(&all).await {
            tracing::warn!(integrations = all.len(), %error, "lists are not kept for a restart");
        }
    }

    /// Writes the remaining lists, with a timeout.
    pub(crate) async fn write_last(&self, store: &Store) {
        let _ = tokio::time::timeout(FINAL_WRITE_TIMEOUT, self.write(store)).await;
    }
}

const HOUR: i64 = 3600;
/// Time steps in seconds, and how long after its start a row is kept.
const STEPS: [(i64, i64); 2] = [(300, 2 * HOUR), (HOUR, 8 * 24 * HOUR)];
/// How long states are kept.
const STATE_KEPT: i64 = 26 * HOUR;
/// Rows in memory. Beyond, the oldest are dropped.
const MAX_ROWS: usize = 20_000;

/// Rows that are not stored yet.
#[derive(Default)]
pub(crate) struct WaitingUsage(pub(crate) Mutex<Waiting>);

#[derive(Default)]
pub(crate) struct Waiting {
    /// In the order of time.
    rows: BTreeMap<UsageKey, UsageCounts>,
    /// Start of the counts in memory, in seconds since 1970; 0 before the first.
    pub(crate) since: i64,
    /// Time of the last write.
    pub(crate) written: Option<i64>,
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
    pub(crate) fn add(&self, counts: &[(UsageKey, UsageCounts)], at: i64, now: i64) {
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

    pub(crate) fn take(&self) -> Vec<(UsageRow, i64)> {
        let taken = std::mem::take(&mut self.0.lock().rows).into_iter().map(|(key, counts)| {
            let expires = find_expiry(&key);
            (UsageRow { key, counts }, expires)
        });
        taken.collect()
    }

    pub(crate) fn put_back(&self, rows: Vec<(UsageRow, i64)>) {
        let mut waiting = self.0.lock();
        for (row, _) in rows {
            waiting.add(row);
        }
    }

    /// Sums the rows by group, as the store does.
    pub(crate) fn sum(&self, group: UsageGroup, filter: &UsageFilter) -> Vec<UsageRow> {
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

#[cfg(test)]
mod tests;
