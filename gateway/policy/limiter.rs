//! Counting requests: the seam that the request path asks, and the limiter that counts in this
//! process, in bounded memory. Whoever starts the gateway chooses the limiter.

mod pace;

use std::collections::HashMap;
use std::fmt;
use std::num::NonZeroU32;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use ahash::RandomState;
use dashmap::DashMap;

use pace::{Pace, Rate};

use crate::file::WhenAway;
use crate::limit_key::LimitKey;

/// An allowance: so many per period, with so many at once; and so many at a time.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Quota {
    pub rate: Option<(NonZeroU32, Duration, NonZeroU32)>,
    pub concurrency: Option<u32>,
    /// For limiters that count elsewhere.
    pub when_away: WhenAway,
}

/// What a policy allows.
#[derive(Clone, Copy)]
pub struct Allowance<'a> {
    /// The name of the policy, under which is counted.
    pub policy: &'a str,
    pub quota: &'a Quota,
}

/// What of an allowance is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reached {
    /// So many per period; after so long there is one more.
    Rate(Duration),
    /// So many at a time; nobody knows when one ends, so this is a guess.
    Concurrency(Duration),
    /// Nobody can say, and then nothing passes; when that ends is a guess.
    Unavailable(Duration),
}

impl Reached {
    /// How long to wait.
    #[must_use]
    pub fn wait(self) -> Duration {
        match self {
            Self::Rate(wait) | Self::Concurrency(wait) | Self::Unavailable(wait) => wait,
        }
    }
}

/// Counts requests. The request path calls this for every rate that is about a request: it must
/// neither wait nor do I/O, and what it remembers must be bounded.
pub trait Limiter: Send + Sync {
    /// One request against an allowance, by what shares it. What comes back is held while the
    /// request runs.
    ///
    /// # Errors
    /// What is reached.
    fn take(&self, of: Allowance<'_>, key: &LimitKey<'_>) -> Result<Option<Held>, Reached>;

    /// Takes back one request that [`Limiter::take`] let pass, as far as it is about how often:
    /// another allowance that it needed refused it.
    fn give_back(&self, of: Allowance<'_>, key: &LimitKey<'_>);

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

type Running = DashMap<u64, u32, RandomState>;

impl Drop for Held {
    fn drop(&mut self) {
        self.0.remove_if_mut(&self.1, |_, count| {
            *count = count.saturating_sub(1);
            *count == 0
        });
    }
}

/// How long to wait for a running request to end: nobody knows, so this is a guess.
const GUESS: Duration = Duration::from_secs(1);
/// Most policies whose counts are kept.
const MAX_BUCKETS: usize = 16_384;

/// Counts in this process. Counts outlive every reload of policies: they belong to a policy's name,
/// also when its numbers change, and also when it is gone for as long as somebody's allowance is
/// not whole again.
#[derive(Default)]
pub struct Local {
    buckets: RwLock<Buckets>,
    /// Nobody can choose whom to share an allowance with.
    hasher: RandomState,
}

type Buckets = HashMap<Box<str>, Arc<Bucket>, RandomState>;

struct Bucket {
    quota: Quota,
    /// That of the quota; where it has none, that of the last one that had, in case it comes back.
    pace: Option<Arc<Pace>>,
    running: Arc<Running>,
}

impl Local {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn read_buckets(&self) -> RwLockReadGuard<'_, Buckets> {
        self.buckets.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_buckets(&self) -> RwLockWriteGuard<'_, Buckets> {
        self.buckets.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is counted of a policy, while its numbers are these.
    fn find_bucket(&self, name: &str, quota: &Quota) -> Option<Arc<Bucket>> {
        let buckets = self.read_buckets();
        let bucket = buckets.get(name)?;
        if bucket.quota != *quota {
            return None;
        }
        Some(Arc::clone(bucket))
    }

    fn bucket(&self, name: &str, quota: &Quota) -> Arc<Bucket> {
        if let Some(known) = self.find_bucket(name, quota) {
            return known;
        }
        let mut buckets = self.write_buckets();
        let new = match buckets.get(name) {
            Some(known) if known.quota == *quota => return Arc::clone(known),
            Some(known) => known.changed_to(quota.clone()),
            None => {
                Bucket { pace: new_pace(quota.rate), quota: quota.clone(), running: Arc::default() }
            }
        };
        if buckets.len() >= MAX_BUCKETS && !buckets.contains_key(name) {
            let least = buckets.iter().min_by_key(|(_, bucket)| bucket.remembers());
            if let Some((least, _)) = least {
                let least = least.clone();
                buckets.remove(&least);
            }
        }
        let new = Arc::new(new);
        buckets.insert(name.into(), Arc::clone(&new));
        new
    }

    /// A place among those that may run at the same time, whatever was used of the rest.
    ///
    /// # Errors
    /// All places are taken.
    pub fn hold(&self, of: Allowance<'_>, key: &LimitKey<'_>) -> Result<Option<Held>, Reached> {
        let Some(most) = of.quota.concurrency else { return Ok(None) };
        let bucket = self.bucket(of.policy, of.quota);
        Ok(Some(bucket.enter(key.hash_with(&self.hasher), most)?))
    }

    fn take_for(&self, name: &str, quota: &Quota, key: u64) -> Result<Option<Held>, Reached> {
        self.bucket(name, quota).take(key)
    }

    fn give_back_for(&self, name: &str, quota: &Quota, key: u64) {
        // Where another number came between, the one request stays used.
        if let Some(bucket) = self.find_bucket(name, quota)
            && let Some(pace) = &bucket.pace
        {
            pace.give_back(key);
        }
    }
}

impl Limiter for Local {
    fn take(&self, of: Allowance<'_>, key: &LimitKey<'_>) -> Result<Option<Held>, Reached> {
        self.take_for(of.policy, of.quota, key.hash_with(&self.hasher))
    }

    fn give_back(&self, of: Allowance<'_>, key: &LimitKey<'_>) {
        self.give_back_for(of.policy, of.quota, key.hash_with(&self.hasher));
    }

    fn sweep(&self) {
        let buckets = self.read_buckets();
        let all: Vec<Arc<Bucket>> = buckets.values().cloned().collect();
        drop(buckets);
        for bucket in &all {
            if let Some(pace) = &bucket.pace {
                pace.sweep();
            }
        }
        drop(all);
        let mut buckets = self.write_buckets();
        // One that is in use right now is about to remember something.
        buckets.retain(|_, bucket| Arc::strong_count(bucket) > 1 || bucket.remembers() > 0);
    }
}

impl Bucket {
    /// The same policy with other numbers. What was used and what runs stays so: saving a file
    /// gives nothing back.
    fn changed_to(&self, quota: Quota) -> Self {
        let pace = self.pace_changed_to(quota.rate);
        Self { quota, pace, running: Arc::clone(&self.running) }
    }

    fn pace_changed_to(&self, rate: Option<Rate>) -> Option<Arc<Pace>> {
        match (&self.pace, rate) {
            (Some(pace), Some(rate)) if pace.rate != rate => Some(Arc::new(pace.changed_to(rate)?)),
            (None, rate) => new_pace(rate),
            (pace, _) => pace.clone(),
        }
    }

    /// How much would be forgotten without it.
    fn remembers(&self) -> usize {
        let paced = match &self.pace {
            Some(pace) => pace.len(),
            None => 0,
        };
        paced + self.running.len()
    }

    fn take(&self, key: u64) -> Result<Option<Held>, Reached> {
        // Before the rate, so that what finds no place does not use up the allowance.
        let held = match self.quota.concurrency {
            Some(most) => Some(self.enter(key, most)?),
            None => None,
        };
        if self.quota.rate.is_some()
            && let Some(pace) = &self.pace
            && let Err(wait) = pace.take(key)
        {
            return Err(Reached::Rate(wait));
        }
        Ok(held)
    }

    fn enter(&self, key: u64, most: u32) -> Result<Held, Reached> {
        let mut count = self.running.entry(key).or_insert(0);
        if *count >= most {
            return Err(Reached::Concurrency(GUESS));
        }
        *count += 1;
        drop(count);
        Ok(Held(Arc::clone(&self.running), key))
    }
}

fn new_pace(rate: Option<Rate>) -> Option<Arc<Pace>> {
    Some(Arc::new(Pace::new(rate?)?))
}

#[cfg(test)]
mod tests;
