//! How often one caller may call: token buckets by principal, in bounded memory.

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use governor::clock::{Clock, DefaultClock};
use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};

use crate::Config;

/// Callers remembered before idle ones are forgotten.
const MAX_KEYS: usize = 100_000;
/// Decisions between two looks at how many callers are remembered.
const SWEEP_EVERY: u32 = 4096;

/// The limits of one configuration.
pub struct Rates {
    calls: Option<Bucket>,
    completions: Bucket,
}

struct Bucket {
    limiter: DefaultKeyedRateLimiter<u64>,
    clock: DefaultClock,
    decisions: AtomicU32,
}

impl Rates {
    #[must_use]
    pub fn new(config: &Config) -> Self {
        let bucket = |per_minute: u32| NonZeroU32::new(per_minute).map(Bucket::new);
        Self {
            calls: config.calls_per_minute.and_then(bucket),
            completions: Bucket::new(NonZeroU32::new(config.completions_per_minute).unwrap_or(NonZeroU32::MIN)),
        }
    }

    /// One `tools/call` of a caller.
    ///
    /// # Errors
    /// How long to wait.
    pub fn call(&self, caller: u64) -> Result<(), Duration> {
        self.calls.as_ref().map_or(Ok(()), |bucket| bucket.take(caller))
    }

    /// One `completion/complete` of a caller.
    ///
    /// # Errors
    /// How long to wait.
    pub fn completion(&self, caller: u64) -> Result<(), Duration> {
        self.completions.take(caller)
    }
}

impl Bucket {
    fn new(per_minute: NonZeroU32) -> Self {
        Self {
            limiter: RateLimiter::keyed(Quota::per_minute(per_minute)),
            clock: DefaultClock::default(),
            decisions: AtomicU32::new(0),
        }
    }

    fn take(&self, caller: u64) -> Result<(), Duration> {
        let count = self.decisions.fetch_add(1, Ordering::Relaxed);
        if count % SWEEP_EVERY == SWEEP_EVERY - 1 && self.limiter.len() > MAX_KEYS {
            self.limiter.retain_recent();
        }
        self.limiter.check_key(&caller).map_err(|not_until| not_until.wait_time_from(self.clock.now()))
    }
}
