//! Rate limits by key, in bounded memory. When the rate of a policy changes, usage is carried over
//! to the new rate.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use ahash::RandomState;
use dashmap::DashMap;
use governor::clock::{Clock, DefaultClock, Reference};
use governor::nanos::Nanos;
use governor::state::keyed::{DashMapStateStore, ShrinkableKeyedStateStore};
use governor::state::{InMemoryState, NotKeyed, StateStore};

/// Requests per period, the period, and the burst.
pub(super) type Rate = (NonZeroU32, Duration, NonZeroU32);

/// Limit of tracked keys per policy. Above it, all keys share [`SHARED_ALLOWANCES`] allowances.
pub(super) const MAX_KEYS: usize = 100_000;
pub(super) const SHARED_ALLOWANCES: u64 = 1024;
/// Requests between two checks of the number of tracked keys.
pub(super) const CHECK_EVERY: u32 = 256;

pub(super) struct Pace {
    pub(super) rate: Rate,
    limiter: governor::RateLimiter<u64, Counts, DefaultClock>,
    counts: Counts,
    /// Usage under an earlier rate that exceeds the current burst.
    beyond: DashMap<u64, Beyond>,
    clock: DefaultClock,
    /// The origin of the times in `counts`, or slightly before it.
    start: <DefaultClock as Clock>::Instant,
    decisions: AtomicU32,
    full: AtomicBool,
}

/// Usage in excess of the whole allowance. It is restored after the rest of the allowance.
struct Beyond {
    used: u32,
    /// The earliest time at which the rest is restored, in nanoseconds since the start.
    after: u64,
}

/// The state of every key, shared with the limiter to make it readable.
#[derive(Clone, Default)]
struct Counts(Arc<DashMapStateStore<u64, RandomState>>);

impl StateStore for Counts {
    type Key = u64;

    fn measure_and_replace<T, F, E>(&self, key: &u64, decide: F) -> Result<T, E>
    where
        F: Fn(Option<Nanos>) -> Result<(T, Nanos), E>,
    {
        self.0.measure_and_replace(key, decide)
    }
}

impl ShrinkableKeyedStateStore<u64> for Counts {
    fn retain_recent(&self, drop_below: Nanos) {
        ShrinkableKeyedStateStore::retain_recent(&*self.0, drop_below);
    }

    fn len(&self) -> usize {
        self.0.len()
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Pace {
    pub(super) fn new(rate: Rate) -> Option<Self> {
        let quota = governor::Quota::with_period(each(rate))?.allow_burst(rate.2);
        let counts = Counts::default();
        let clock = DefaultClock::default();
        // Before the limiter's own start: a request that is about to be restored counts as used.
        let start = clock.now();
        Some(Self {
            rate,
            limiter: governor::RateLimiter::new(quota, counts.clone(), clock.clone()),
            counts,
            beyond: DashMap::new(),
            clock,
            start,
            decisions: AtomicU32::new(0),
            full: AtomicBool::new(false),
        })
    }

    /// Returns a pace with another rate and the same usage by key. Usage above the new burst is
    /// kept aside for the next change. Visits every key once.
    pub(super) fn changed_to(&self, rate: Rate) -> Option<Self> {
        let new = Self::new(rate)?;
        let now = self.now();
        let every = nanos(self.rate);
        let mut all: HashMap<u64, u64> = HashMap::new();
        for entry in self.counts.0.iter() {
            let (key, state) = entry.pair();
            // A partly restored request counts as used.
            all.insert(*key, until(state).saturating_sub(now).div_ceil(every));
        }
        for entry in &self.beyond {
            *all.entry(*entry.key()).or_default() +=
                u64::from(self.beyond_of(*entry.key(), entry.value(), now));
        }
        for (key, used) in all {
            let used = u32::try_from(used).unwrap_or(u32::MAX);
            let fits = used.min(rate.2.get());
            if let Some(fits) = NonZeroU32::new(fits) {
                // Always succeeds: the new limiter is unused.
                let _ = new.limiter.check_key_n(&key, fits);
            }
            if used > fits && new.beyond.len() < MAX_KEYS {
                let after = new.now().saturating_add(nanos(rate).saturating_mul(fits.into()));
                new.beyond.insert(key, Beyond { used: used - fits, after });
            }
        }
        new.full.store(self.full.load(Ordering::Relaxed), Ordering::Relaxed);
        Some(new)
    }

    /// Returns the excess usage that has not been restored yet.
    fn beyond_of(&self, key: u64, beyond: &Beyond, now: u64) -> u32 {
        let back = now.saturating_sub(self.whole_after(key, beyond)) / nanos(self.rate);
        beyond.used.saturating_sub(u32::try_from(back).unwrap_or(u32::MAX))
    }

    fn whole_after(&self, key: u64, beyond: &Beyond) -> u64 {
        match self.counts.0.get(&key) {
            Some(state) => until(&state).max(beyond.after),
            None => beyond.after,
        }
    }

    /// Returns the nanoseconds since the start.
    fn now(&self) -> u64 {
        Reference::duration_since(&self.clock.now(), self.start).as_u64()
    }

    /// Takes a request, or returns how long to wait.
    pub(super) fn take(&self, key: u64) -> Result<(), Duration> {
        let look = self.decisions.fetch_add(1, Ordering::Relaxed) % CHECK_EVERY == CHECK_EVERY - 1;
        if look && self.limiter.len() >= MAX_KEYS {
            self.full.store(true, Ordering::Relaxed);
        }
        self.limiter
            .check_key(&self.key(key))
            .map_err(|until| until.wait_time_from(self.clock.now()))
    }

    /// Undoes a [`Pace::take`]. A full allowance stays as it is.
    pub(super) fn give_back(&self, key: u64) {
        let each = Nanos::from(each(self.rate));
        let _ = self.counts.measure_and_replace(&self.key(key), |until| match until {
            Some(until) => Ok(((), until.saturating_sub(each))),
            None => Err(()),
        });
    }

    fn key(&self, key: u64) -> u64 {
        if self.full.load(Ordering::Relaxed) { key % SHARED_ALLOWANCES } else { key }
    }

    /// Drops the keys with a restored allowance.
    pub(super) fn sweep(&self) {
        let now = self.now();
        self.beyond.retain(|key, beyond| {
            // Stored here, because the count that this depends on may be dropped next.
            beyond.after = self.whole_after(*key, beyond);
            self.beyond_of(*key, beyond, now) > 0
        });
        self.limiter.retain_recent();
        self.full.store(self.limiter.len() >= MAX_KEYS, Ordering::Relaxed);
    }

    pub(super) fn len(&self) -> usize {
        self.limiter.len() + self.beyond.len()
    }
}

/// Returns the time in which a single request is restored.
fn each((number, period, _): Rate) -> Duration {
    period / number.get()
}

/// Returns the same time in nanoseconds, at least 1.
fn nanos(rate: Rate) -> u64 {
    u64::try_from(each(rate).as_nanos()).unwrap_or(u64::MAX).max(1)
}

/// Returns when the whole allowance is restored, in nanoseconds since the start.
fn until(state: &InMemoryState) -> u64 {
    // Returning an error leaves the state unchanged.
    let seen = state.measure_and_replace(&NotKeyed::NonKey, Err::<((), Nanos), _>);
    match seen {
        Err(Some(until)) => until.as_u64(),
        _ => 0,
    }
}
