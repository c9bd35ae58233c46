//! Calls by series and time step that are not stored yet. While there is no database, or none can
//! be created, queries are answered from these.

use std::collections::BTreeMap;

use lockgate_store::{STATE, UsageCounts, UsageFilter, UsageGroup, UsageKey, UsageRow};
use parking_lot::Mutex;

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
        let mut taken = Vec::new();
        for (key, counts) in std::mem::take(&mut self.0.lock().rows) {
            let expires = find_expiry(&key);
            taken.push((UsageRow { key, counts }, expires));
        }
        taken
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
