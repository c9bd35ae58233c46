//! Counting requests. The limiter here counts in this process, in bounded memory; one that several processes share can
//! take its place behind the same trait.

use std::fmt;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use dashmap::DashMap;
use governor::clock::{Clock, DefaultClock};
use governor::{DefaultKeyedRateLimiter, RateLimiter};

/// An allowance: so many per period, with so many at once; and so many at a time.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Quota {
    pub rate: Option<(NonZeroU32, Duration, NonZeroU32)>,
    pub concurrency: Option<u32>,
}

/// Counts requests.
pub trait Limiter: Send + Sync {
    /// One request against an allowance. `name` is the policy's, `key` what shares the allowance.
    ///
    /// # Errors
    /// How long to wait, and whether it is about how many run at the same time.
    fn take(&self, name: &str, quota: &Quota, key: u64) -> Result<Option<Held>, (Duration, bool)>;

    /// Forgets what has been idle. Called now and then, away from requests.
    fn sweep(&self);
}

/// A place among those that may run at the same time; given back when it is dropped.
pub struct Held(Arc<Running>, u64);

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Held")
    }
}

type Running = DashMap<u64, u32>;

impl Drop for Held {
    fn drop(&mut self) {
        self.0.remove_if_mut(&self.1, |_, count| {
            *count = count.saturating_sub(1);
            *count == 0
        });
    }
}

/// Callers and the like that one policy remembers; those beyond share a few allowances.
const MAX_KEYS: usize = 100_000;
const SHARED: u64 = 1024;
/// Requests between two looks at how many are remembered.
const LOOK_EVERY: u32 = 256;
/// How long to wait for a running request to end: nobody knows, so this is a guess.
const GUESS: Duration = Duration::from_secs(1);
/// Most policies whose counts are kept.
const MAX_BUCKETS: usize = 16_384;

/// Counts in this process. Counts outlive a reload of policies, as long as a policy keeps its name and allowance.
#[derive(Default)]
pub struct Local {
    buckets: RwLock<std::collections::HashMap<Box<str>, Arc<Bucket>>>,
}

struct Bucket {
    quota: Quota,
    limiter: Option<DefaultKeyedRateLimiter<u64>>,
    running: Arc<Running>,
    clock: DefaultClock,
    decisions: AtomicU32,
    full: AtomicBool,
}

impl Local {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn bucket(&self, name: &str, quota: &Quota) -> Arc<Bucket> {
        let known = self.buckets.read().unwrap_or_else(PoisonError::into_inner).get(name).map(Arc::clone);
        if let Some(known) = known.filter(|bucket| bucket.quota == *quota) {
            return known;
        }
        let mut buckets = self.buckets.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = buckets.get(name).filter(|bucket| bucket.quota == *quota) {
            return Arc::clone(known);
        }
        if buckets.len() >= MAX_BUCKETS {
            buckets.clear();
        }
        let new = Arc::new(Bucket::new(quota.clone()));
        buckets.insert(name.into(), Arc::clone(&new));
        new
    }
}

impl Limiter for Local {
    fn take(&self, name: &str, quota: &Quota, key: u64) -> Result<Option<Held>, (Duration, bool)> {
        self.bucket(name, quota).take(key)
    }

    fn sweep(&self) {
        let all: Vec<_> = self.buckets.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect();
        for bucket in all {
            if let Some(limiter) = &bucket.limiter {
                limiter.retain_recent();
                bucket.full.store(limiter.len() >= MAX_KEYS, Ordering::Relaxed);
            }
        }
    }
}

impl Bucket {
    fn new(quota: Quota) -> Self {
        let limiter = quota.rate.and_then(|(number, period, burst)| {
            let pace = governor::Quota::with_period(period / number.get())?.allow_burst(burst);
            Some(RateLimiter::keyed(pace))
        });
        Self {
            limiter,
            quota,
            running: Arc::default(),
            clock: DefaultClock::default(),
            decisions: AtomicU32::new(0),
            full: AtomicBool::new(false),
        }
    }

    fn take(&self, key: u64) -> Result<Option<Held>, (Duration, bool)> {
        // Before the rate, so that what finds no place does not use up the allowance.
        let held = self.quota.concurrency.map(|most| self.enter(key, most)).transpose()?;
        let Some(limiter) = &self.limiter else { return Ok(held) };
        if self.decisions.fetch_add(1, Ordering::Relaxed) % LOOK_EVERY == LOOK_EVERY - 1 && limiter.len() >= MAX_KEYS {
            self.full.store(true, Ordering::Relaxed);
        }
        let key = if self.full.load(Ordering::Relaxed) { key % SHARED } else { key };
        match limiter.check_key(&key) {
            Ok(()) => Ok(held),
            Err(until) => Err((until.wait_time_from(self.clock.now()), false)),
        }
    }

    fn enter(&self, key: u64, most: u32) -> Result<Held, (Duration, bool)> {
        let mut count = self.running.entry(key).or_insert(0);
        if *count >= most {
            return Err((GUESS, true));
        }
        *count += 1;
        drop(count);
        Ok(Held(Arc::clone(&self.running), key))
    }
}

#[cfg(test)]
mod tests;
