//! What this gateway knows of the allowances that are shared: how much was left when the store last
//! said so, what passed since, and what is to be reported. Requests pass a little ahead of the
//! store; what it hears of late is taken from what follows, so that nothing is lost or saved up.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use ahash::RandomState;
use dashmap::DashMap;
use lockgate_policy::{Allowance, LimitKey};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::connection::Report;

/// Allowances that are remembered; those beyond share some with each other.
pub(crate) const MAX_KEYS: usize = 100_000;
pub(crate) const SURPLUS: u64 = 1024;
/// Of what is left, a gateway may let this part pass before it hears from the store again, so that
/// as many gateways at once do not go beyond it.
const PART: f64 = 8.0;
/// But this many in any case: a client that begins with some requests at once finds room.
const FEW: f64 = 4.0;
/// How long the store takes to answer, about; what comes back meanwhile may pass as well.
const ROUND_TRIP: f64 = 10_000.0;
/// How long to wait where only the answer of the store is missing.
const SOON: Duration = Duration::from_millis(10);
/// What is said where the wait is longer than time can be told.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// See the module.
pub(crate) struct Counts {
    entries: DashMap<u64, Entry, RandomState>,
    known: AtomicUsize,
    is_full: AtomicBool,
    hasher: RandomState,
    is_away: AtomicBool,
    /// What allowances are named with, in the store and by all gateways.
    key: [u8; 32],
    /// Those of which something is to be reported.
    waiting: Mutex<Vec<u64>>,
    pub(crate) reporter: Notify,
}

struct Entry {
    /// Names the allowance in the store.
    name: [u8; 16],
    /// Microseconds in which one comes back, and how many there are at once.
    each: f64,
    burst: u32,
    /// What was left, and when.
    left: f64,
    at: Instant,
    /// What passed since the last report; less than nothing was given back.
    passed: i64,
    /// What was reported and not answered.
    reported: i64,
    is_waiting: bool,
}

impl Counts {
    pub(crate) fn new(key: [u8; 32]) -> Self {
        Self {
            entries: DashMap::default(),
            known: AtomicUsize::new(0),
            is_full: AtomicBool::new(false),
            hasher: RandomState::new(),
            is_away: AtomicBool::new(true),
            key,
            waiting: Mutex::default(),
            reporter: Notify::new(),
        }
    }

    /// Whether the store cannot be reached now.
    pub(crate) fn is_away(&self) -> bool {
        self.is_away.load(Ordering::Relaxed)
    }

    pub(crate) fn set_away(&self, is_away: bool) {
        self.is_away.store(is_away, Ordering::Relaxed);
    }

    /// One request, as far as the store's last word allows.
    ///
    /// # Errors
    /// How long to wait.
    pub(crate) fn take(&self, of: Allowance<'_>, key: &LimitKey<'_>) -> Result<(), Duration> {
        self.with_entry(of, key, Entry::take).unwrap_or(Ok(()))
    }

    /// One request that passes whatever is left; the store hears of it later.
    pub(crate) fn note(&self, of: Allowance<'_>, key: &LimitKey<'_>) {
        self.with_entry(of, key, |entry| {
            // No more than the store keeps.
            entry.passed = (entry.passed + 1).min(2 * i64::from(entry.burst));
        });
    }

    pub(crate) fn give_back(&self, of: Allowance<'_>, key: &LimitKey<'_>) {
        self.with_entry(of, key, |entry| entry.passed -= 1);
    }

    /// Does something with what is known of an allowance, and has it reported.
    fn with_entry<T>(
        &self,
        of: Allowance<'_>,
        key: &LimitKey<'_>,
        work: impl FnOnce(&mut Entry) -> T,
    ) -> Option<T> {
        let rate = of.quota.rate?;
        let each = rate.1.as_secs_f64() * 1e6 / f64::from(rate.0.get());
        let burst = rate.2.get();
        let mut id = self.hasher.hash_one((of.policy, key.hash_with(&self.hasher)));
        let mut slot = None;
        if self.is_full.load(Ordering::Relaxed) && !self.entries.contains_key(&id) {
            let name = self.name(of.policy, key, None);
            let number = u64::from(u16::from_le_bytes([name[0], name[1]])) % SURPLUS;
            id = self.hasher.hash_one((of.policy, number));
            slot = Some(number);
        }
        let mut entry = self.entries.entry(id).or_insert_with(|| {
            self.known.fetch_add(1, Ordering::Relaxed);
            Entry::new(self.name(of.policy, key, slot), each, burst)
        });
        entry.adopt(each, burst);
        let result = work(&mut entry);
        if entry.passed != 0 && !entry.is_waiting {
            entry.is_waiting = true;
            self.waiting.lock().push(id);
            self.reporter.notify_one();
        }
        drop(entry);
        if self.known.load(Ordering::Relaxed) >= MAX_KEYS {
            self.is_full.store(true, Ordering::Relaxed);
        }
        Some(result)
    }

    /// How all gateways name an allowance, or one of those that many share: nobody can tell from it
    /// whose it is, or find another one with the same name.
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

    /// What is to be reported, `most` at once, each with its number here.
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

    /// Takes the store's answer to a report: thousandths that were left.
    pub(crate) fn answer(&self, id: u64, left: i64) {
        if let Some(mut entry) = self.entries.get_mut(&id) {
            entry.reported = 0;
            // No more was ever taken at once, nor given, whatever the store says.
            let most = 2.0 * f64::from(entry.burst);
            entry.left = (left as f64 / 1000.0).clamp(-most, most);
            entry.at = Instant::now();
        }
    }

    /// Nobody knows whether the store has heard of it: it is reported again.
    pub(crate) fn restore(&self, id: u64) {
        let Some(mut entry) = self.entries.get_mut(&id) else { return };
        entry.passed += std::mem::take(&mut entry.reported);
        if !entry.is_waiting {
            entry.is_waiting = true;
            self.waiting.lock().push(id);
        }
    }

    /// Forgets what is whole again.
    pub(crate) fn sweep(&self) {
        let now = Instant::now();
        self.entries.retain(|_, entry| {
            let is_busy = entry.is_waiting || entry.reported != 0;
            is_busy || entry.left_at(now) < f64::from(entry.burst)
        });
        let known = self.entries.len();
        self.known.store(known, Ordering::Relaxed);
        self.is_full.store(known >= MAX_KEYS, Ordering::Relaxed);
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }
}

/// No part runs into the next one, and none is not an empty one.
fn write_part(hasher: &mut blake3::Hasher, part: Option<&str>) {
    let length = match part {
        Some(part) => part.len() as u64,
        None => u64::MAX,
    };
    hasher.update(&length.to_le_bytes());
    hasher.update(part.unwrap_or("").as_bytes());
}

impl Entry {
    /// Of an allowance that nobody knows anything of: it may be whole.
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

    /// The policy has other numbers: what was used stays used.
    fn adopt(&mut self, each: f64, burst: u32) {
        if (self.each, self.burst) == (each, burst) {
            return;
        }
        let now = Instant::now();
        self.left = self.left_at(now) + f64::from(burst) - f64::from(self.burst);
        self.at = now;
        (self.each, self.burst) = (each, burst);
    }

    /// What is left if nobody else has used any of it.
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
            return Err(wait.unwrap_or(LONGEST));
        }
        let lease = FEW.max(left / PART) + ROUND_TRIP / self.each;
        if ahead + 1.0 > lease {
            return Err(SOON);
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
