//! This gateway's counts of shared allowances: the remainder last reported by the store, requests
//! passed since, and pending reports. Requests pass slightly ahead of the store; usage that the
//! store reports later is subtracted from the following requests, so no usage is lost and none is
//! saved up.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use ahash::RandomState;
use dashmap::DashMap;
use lockgate_policy::{Allowance, LimitKey};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::connection::Report;

/// Maximum tracked allowances; further allowances share [`SURPLUS_ENTRIES`] entries.
pub(crate) const MAX_KEYS: usize = 100_000;
pub(crate) const SURPLUS_ENTRIES: u64 = 1024;
/// Divisor of the remainder that a gateway may pass before the next report, so that this many
/// gateways together stay within the remainder.
const REMAINDER_DIVISOR: f64 = 8.0;
/// Minimum number of requests ahead of the store, so that a client can start with a few requests at
/// once.
const MIN_REQUESTS_AHEAD: f64 = 4.0;
/// Approximate round trip to the store in microseconds; requests replenished during it may also
/// pass.
const ROUND_TRIP_MICROS: f64 = 10_000.0;
/// The wait reported while the store's reply is pending.
const PENDING_WAIT: Duration = Duration::from_millis(10);
/// The reported wait if the exact value exceeds the range of `Duration`.
const MAX_REPORTED_WAIT: Duration = Duration::from_secs(24 * 3600);

pub(crate) struct Counts {
    entries: DashMap<u64, CountsEntry, RandomState>,
    /// The size of `entries`, because counting locks every shard.
    known: AtomicUsize,
    hasher: RandomState,
    is_away: AtomicBool,
    /// Keys the hashes that name allowances, in the store and at all gateways.
    key: [u8; 32],
    /// Ids of entries with pending reports.
    waiting: Mutex<Vec<u64>>,
    pub(crate) reporter: Notify,
}

struct CountsEntry {
    /// The allowance's name in the store.
    name: [u8; 16],
    /// Microseconds until a request is replenished; `burst` is the maximum.
    each: f64,
    burst: u32,
    /// The remainder at the instant `at`.
    left: f64,
    at: Instant,
    /// Requests passed since the last report; negative if more were returned.
    passed: i64,
    /// Reported requests that the store has not acknowledged.
    reported: i64,
    is_waiting: bool,
}

impl Counts {
    pub(crate) fn new(key: [u8; 32]) -> Self {
        Self {
            entries: DashMap::default(),
            known: AtomicUsize::new(0),
            hasher: RandomState::new(),
            is_away: AtomicBool::new(true),
            key,
            waiting: Mutex::default(),
            reporter: Notify::new(),
        }
    }

    pub(crate) fn is_away(&self) -> bool {
        self.is_away.load(Ordering::Relaxed)
    }

    pub(crate) fn set_away(&self, is_away: bool) {
        self.is_away.store(is_away, Ordering::Relaxed);
    }

    /// Takes a request, if the remainder last reported by the store permits.
    ///
    /// # Errors
    /// The time to wait.
    pub(crate) fn take(&self, of: Allowance<'_>, key: &LimitKey<'_>) -> Result<(), Duration> {
        self.with_entry(of, key, CountsEntry::take).unwrap_or(Ok(()))
    }

    /// Counts a request that passes regardless of the remainder, for a later report.
    pub(crate) fn note(&self, of: Allowance<'_>, key: &LimitKey<'_>) {
        self.with_entry(of, key, |entry| {
            // No more than the store keeps.
            entry.passed = (entry.passed + 1).min(2 * i64::from(entry.burst));
        });
    }

    pub(crate) fn give_back(&self, of: Allowance<'_>, key: &LimitKey<'_>) {
        self.with_entry(of, key, |entry| entry.passed -= 1);
    }

    /// Updates the entry of an allowance and queues its report.
    fn with_entry<T>(
        &self,
        of: Allowance<'_>,
        key: &LimitKey<'_>,
        work: impl FnOnce(&mut CountsEntry) -> T,
    ) -> Option<T> {
        let rate = of.quota.rate?;
        let each = rate.1.as_secs_f64() * 1e6 / f64::from(rate.0.get());
        let burst = rate.2.get();
        let mut id = self.hasher.hash_one((of.policy, key.hash_with(&self.hasher)));
        let mut slot = None;
        let is_full = self.known.load(Ordering::Relaxed) >= MAX_KEYS;
        if is_full && !self.entries.contains_key(&id) {
            let name = self.name(of.policy, key, None);
            let number = u64::from(u16::from_le_bytes([name[0], name[1]])) % SURPLUS_ENTRIES;
            id = self.hasher.hash_one((of.policy, number));
            slot = Some(number);
        }
        let mut entry = self.entries.entry(id).or_insert_with(|| {
            self.known.fetch_add(1, Ordering::Relaxed);
            CountsEntry::new(self.name(of.policy, key, slot), each, burst)
        });
        entry.adopt(each, burst);
        let result = work(&mut entry);
        if entry.passed != 0 && !entry.is_waiting {
            entry.is_waiting = true;
            self.waiting.lock().push(id);
            self.reporter.notify_one();
        }
        Some(result)
    }

    /// Returns the name of an allowance, or of a shared slot, which is the same at all gateways.
    /// The keyed hash reveals no caller, and collisions cannot be constructed.
    fn name(&self, policy: &str, key: &LimitKey<'_>, slot: Option<u64>) -> [u8; 16] {
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        write_part(&mut hasher, Some(policy));
        match slot {
            None => key.visit(&mut |part| write_part(&mut hasher, part)),
            Some(slot) => write_part(&mut hasher, Some(&slot.to_string())),
        }
        let mut name = [0; 16];
        hasher.finalize_xof().fill(&mut name);
        name
    }

    /// Returns at most `most` pending reports, with the ids of their entries.
    pub(crate) fn collect(&self, most: usize) -> Vec<(u64, Report)> {
        let mut ids = std::mem::take(&mut *self.waiting.lock());
        if ids.len() > most {
            let rest = ids.split_off(most);
            self.waiting.lock().extend(rest);
            self.reporter.notify_one();
        }
        let mut reports = Vec::with_capacity(ids.len());
        for id in ids {
            if let Some(mut entry) = self.entries.get_mut(&id) {
                reports.push((id, entry.report()));
            }
        }
        reports
    }

    /// Sets the remainder reported by the store, in thousandths.
    pub(crate) fn answer(&self, id: u64, left: i64) {
        if let Some(mut entry) = self.entries.get_mut(&id) {
            entry.reported = 0;
            // Bounds the values that the store may set.
            let most = 2.0 * f64::from(entry.burst);
            entry.left = (left as f64 / 1000.0).clamp(-most, most);
            entry.at = Instant::now();
        }
    }

    /// Queues a report again after an error, because the store may not have received it.
    pub(crate) fn restore(&self, id: u64) {
        let Some(mut entry) = self.entries.get_mut(&id) else { return };
        entry.passed += std::mem::take(&mut entry.reported);
        if !entry.is_waiting {
            entry.is_waiting = true;
            self.waiting.lock().push(id);
        }
    }

    /// Removes fully replenished entries without pending reports.
    pub(crate) fn sweep(&self) {
        let now = Instant::now();
        self.entries.retain(|_, entry| {
            let is_busy = entry.is_waiting || entry.reported != 0;
            is_busy || entry.left_at(now) < f64::from(entry.burst)
        });
        self.known.store(self.entries.len(), Ordering::Relaxed);
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }
}

/// Hashes a part with its length, so that parts cannot run into each other and an absent part
/// differs from an empty part.
fn write_part(hasher: &mut blake3::Hasher, part: Option<&str>) {
    let length = part.map_or_else(|| u64::MAX, |part| part.len() as u64);
    hasher.update(&length.to_le_bytes());
    hasher.update(part.unwrap_or("").as_bytes());
}

impl CountsEntry {
    /// Creates an entry with a full allowance, because its usage is unknown.
    fn new(name: [u8; 16], each: f64, burst: u32) -> Self {
        Self {
            name,
            each,
            burst,
            left: f64::from(burst),
            at: Instant::now(),
            passed: 0,
            reported: 0,
            is_waiting: false,
        }
    }

    /// Adopts a changed rate of the policy. Past usage stays counted.
    fn adopt(&mut self, each: f64, burst: u32) {
        if (self.each, self.burst) == (each, burst) {
            return;
        }
        let now = Instant::now();
        self.left = self.left_at(now) + f64::from(burst) - f64::from(self.burst);
        self.at = now;
        (self.each, self.burst) = (each, burst);
    }

    /// Returns the remainder if no other gateway has used the allowance.
    fn left_at(&self, now: Instant) -> f64 {
        let passed = now.saturating_duration_since(self.at).as_secs_f64() * 1e6;
        (self.left + passed / self.each).min(f64::from(self.burst))
    }

    fn take(&mut self) -> Result<(), Duration> {
        let left = self.left_at(Instant::now());
        let ahead = (self.passed + self.reported) as f64;
        let missing = 1.0 - (left - ahead);
        if missing > 0.0 {
            let wait = Duration::try_from_secs_f64(missing * self.each / 1e6);
            return Err(wait.unwrap_or(MAX_REPORTED_WAIT));
        }
        let lease =
            MIN_REQUESTS_AHEAD.max(left / REMAINDER_DIVISOR) + ROUND_TRIP_MICROS / self.each;
        if ahead + 1.0 > lease {
            return Err(PENDING_WAIT);
        }
        self.passed += 1;
        Ok(())
    }

    fn report(&mut self) -> Report {
        self.is_waiting = false;
        let passed = std::mem::take(&mut self.passed);
        self.reported += passed;
        Report { name: self.name, passed, each: self.each, burst: self.burst }
    }
}

#[cfg(test)]
mod tests;
