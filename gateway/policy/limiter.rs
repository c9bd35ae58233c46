//! Request counting: the interface that the request path calls, and a limiter that counts within
//! this process in bounded memory. The limiter is chosen at startup.

mod pace;

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, Hasher};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use ahash::RandomState;
use dashmap::DashMap;
use parking_lot::RwLock;

use crate::file::{Key, WhenAway};
use crate::{Subject, Target};
use pace::{Pace, Rate};

/// A limit of requests per period, with a burst, and of concurrent requests.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Quota {
    pub rate: Option<(NonZeroU32, Duration, NonZeroU32)>,
    pub concurrency: Option<u32>,
    /// Used only by limiters that count in a shared store.
    pub when_away: WhenAway,
}

/// The allowance that a policy grants.
#[derive(Clone, Copy)]
pub struct Allowance<'a> {
    /// The name of the policy, which identifies its counts.
    pub policy: &'a str,
    pub quota: &'a Quota,
}

/// The limit that was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reached {
    /// The rate; one more request is available after this time.
    Rate(Duration),
    /// The concurrency. The time is a guess, because the end of a running request is unknown.
    Concurrency(Duration),
    /// The counts are unavailable, so nothing passes. The time is a guess.
    Unavailable(Duration),
}

impl Reached {
    /// Returns how long to wait.
    pub fn wait(self) -> Duration {
        match self {
            Self::Rate(wait) | Self::Concurrency(wait) | Self::Unavailable(wait) => wait,
        }
    }
}

/// A counter of requests. The request path calls it for every rate that concerns a request, so it
/// must neither wait nor do I/O, and its memory must be bounded.
pub trait Limiter: Send + Sync {
    /// Takes a request from the allowance with this key. The returned permit is held while the
    /// request runs.
    ///
    /// # Errors
    /// Returns the limit that was reached.
    fn take(&self, of: Allowance<'_>, key: &LimitKey<'_>) -> Result<Option<HeldPermit>, Reached>;

    /// Undoes the rate count of a [`Limiter::take`], after another allowance refused the request.
    fn give_back(&self, of: Allowance<'_>, key: &LimitKey<'_>);

    /// Drops idle counts. Called periodically, outside of requests.
    fn sweep(&self);
}

/// A concurrency permit, released on drop.
pub struct HeldPermit(Arc<Running>, u64);

lockgate_text::debug_fields!(HeldPermit);

type Running = DashMap<u64, u32, RandomState>;

impl Drop for HeldPermit {
    fn drop(&mut self) {
        self.0.remove_if_mut(&self.1, |_, count| {
            *count = count.saturating_sub(1);
            *count == 0
        });
    }
}

/// Wait time after the concurrency limit: a guess, because the end of a request is unknown.
const CONCURRENCY_WAIT: Duration = Duration::from_secs(1);
/// Maximum number of policies with stored counts.
const MAX_BUCKETS: usize = 16_384;

/// A limiter that counts in this process. Counts belong to the name of a policy and survive
/// reloads: they are kept when its numbers change, and after its removal until every allowance has
/// been restored.
#[derive(Default)]
pub struct Local {
    buckets: RwLock<Buckets>,
    /// Seeded at random, so that callers cannot construct colliding keys.
    hasher: RandomState,
}

type Buckets = HashMap<Box<str>, Arc<Bucket>, RandomState>;

struct Bucket {
    quota: Quota,
    /// The pace of the quota, or the last pace before the rate was removed.
    pace: Option<Arc<Pace>>,
    running: Arc<Running>,
}

impl Local {
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the counts of a policy, unless its numbers have changed.
    fn find_bucket(&self, name: &str, quota: &Quota) -> Option<Arc<Bucket>> {
        let buckets = self.buckets.read();
        buckets.get(name).filter(|bucket| bucket.quota == *quota).cloned()
    }

    fn bucket(&self, name: &str, quota: &Quota) -> Arc<Bucket> {
        if let Some(known) = self.find_bucket(name, quota) {
            return known;
        }
        let mut buckets = self.buckets.write();
        let new = match buckets.get(name) {
            Some(known) if known.quota == *quota => return Arc::clone(known),
            Some(known) => known.changed_to(quota.clone()),
            None => {
                Bucket { pace: new_pace(quota.rate), quota: quota.clone(), running: Arc::default() }
            }
        };
        if buckets.len() >= MAX_BUCKETS && !buckets.contains_key(name) {
            let least = buckets.iter().min_by_key(|(_, bucket)| bucket.remembers());
            if let Some(least) = least.map(|(name, _)| name.clone()) {
                buckets.remove(&least);
            }
        }
        let new = Arc::new(new);
        buckets.insert(name.into(), Arc::clone(&new));
        new
    }

    /// Takes a concurrency permit without counting against the rate.
    ///
    /// # Errors
    /// The concurrency limit is reached.
    pub fn hold(
        &self,
        of: Allowance<'_>,
        key: &LimitKey<'_>,
    ) -> Result<Option<HeldPermit>, Reached> {
        let Some(most) = of.quota.concurrency else { return Ok(None) };
        let bucket = self.bucket(of.policy, of.quota);
        Ok(Some(bucket.enter(key.hash_with(&self.hasher), most)?))
    }

    fn give_back_for(&self, name: &str, quota: &Quota, key: u64) {
        // If the numbers have changed in between, the request stays counted.
        if let Some(bucket) = self.find_bucket(name, quota)
            && let Some(pace) = &bucket.pace
        {
            pace.give_back(key);
        }
    }
}

impl Limiter for Local {
    fn take(&self, of: Allowance<'_>, key: &LimitKey<'_>) -> Result<Option<HeldPermit>, Reached> {
        self.bucket(of.policy, of.quota).take(key.hash_with(&self.hasher))
    }

    fn give_back(&self, of: Allowance<'_>, key: &LimitKey<'_>) {
        self.give_back_for(of.policy, of.quota, key.hash_with(&self.hasher));
    }

    fn sweep(&self) {
        let paces: Vec<_> =
            self.buckets.read().values().filter_map(|bucket| bucket.pace.clone()).collect();
        paces.iter().for_each(|pace| pace.sweep());
        let mut buckets = self.buckets.write();
        // A bucket in use may be about to record a count.
        buckets.retain(|_, bucket| Arc::strong_count(bucket) > 1 || bucket.remembers() > 0);
    }
}

impl Bucket {
    /// Returns the bucket of the same policy with other numbers. Usage and running requests are
    /// kept, so that saving a file resets nothing.
    fn changed_to(&self, quota: Quota) -> Self {
        let pace = match (&self.pace, quota.rate) {
            (Some(pace), Some(rate)) if pace.rate != rate => pace.changed_to(rate).map(Arc::new),
            (None, rate) => new_pace(rate),
            (pace, _) => pace.clone(),
        };
        Self { quota, pace, running: Arc::clone(&self.running) }
    }

    /// Returns the number of counts that removing the bucket would lose.
    fn remembers(&self) -> usize {
        let paced = self.pace.as_ref().map_or(0, |pace| pace.len());
        paced + self.running.len()
    }

    fn take(&self, key: u64) -> Result<Option<HeldPermit>, Reached> {
        // Before the rate, so that a request without a permit does not use up the allowance.
        let held = self.quota.concurrency.map(|most| self.enter(key, most)).transpose()?;
        if self.quota.rate.is_some()
            && let Some(pace) = &self.pace
            && let Err(wait) = pace.take(key)
        {
            return Err(Reached::Rate(wait));
        }
        Ok(held)
    }

    fn enter(&self, key: u64, most: u32) -> Result<HeldPermit, Reached> {
        let mut count = self.running.entry(key).or_insert(0);
        if *count >= most {
            return Err(Reached::Concurrency(CONCURRENCY_WAIT));
        }
        *count += 1;
        drop(count);
        Ok(HeldPermit(Arc::clone(&self.running), key))
    }
}

fn new_pace(rate: Option<Rate>) -> Option<Arc<Pace>> {
    Some(Arc::new(Pace::new(rate?)?))
}

// The key of an allowance: the values of a request by which a policy counts. Limiters store only a
// hash of the key, with a secret of their process or with a secret shared by all gateways.

/// The key of an allowance. Requests with equal keys share it.
pub struct LimitKey<'a> {
    /// Sorted, without duplicates.
    by: &'a [Key],
    subject: &'a Subject<'a>,
    target: Option<&'a Target<'a>>,
}

impl<'a> LimitKey<'a> {
    /// Creates the key of a request. `by` must be sorted and free of duplicates.
    pub fn new(by: &'a [Key], subject: &'a Subject<'a>, target: Option<&'a Target<'a>>) -> Self {
        Self { by, subject, target }
    }

    /// Returns a hash for use within one process.
    pub fn hash_with(&self, state: &impl BuildHasher) -> u64 {
        let mut hasher = state.build_hasher();
        self.visit(&mut |part| part.hash(&mut hasher));
        hasher.finish()
    }

    /// Calls `visitor` with each part in turn, in the same order in every process; a part that the
    /// request lacks is `None`. The name of each [`Key`] precedes its parts, so that keys of
    /// different kinds never collide.
    pub fn visit(&self, visitor: &mut dyn FnMut(Option<&str>)) {
        let Subject { issuer, subject, organisation, agent, .. } = *self.subject;
        for key in self.by {
            visitor(Some(key.as_str()));
            let parts = match key {
                Key::Principal => [Some(issuer), Some(subject), organisation],
                Key::Organisation => [organisation, None, None],
                Key::Agent => [Some(issuer), agent, organisation],
                Key::Server => self.name_target(None),
                Key::Tool => self.name_target(self.target.map(|target| target.own)),
            };
            for part in parts {
                visitor(part);
            }
        }
    }

    /// Returns the parts of a target, with its organisation: a slug is unique only within one.
    fn name_target<'b>(&'b self, own: Option<&'b str>) -> [Option<&'b str>; 3] {
        match self.target {
            Some(target) => [Some(target.server), target.organisation, own],
            None => [None; 3],
        }
    }
}

#[cfg(test)]
mod tests;
