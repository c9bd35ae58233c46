//! The subscriptions that callers have at a server with accounts of users, whether or not an
//! account is connected.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use lockgate_accounts::Holder;
use lockgate_upstream::{Caller, Topic};
use parking_lot::Mutex;

/// The number of the next holder with subscriptions, at any server.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// The holders with subscriptions on their shared connections, whether or not an account is
/// connected.
#[derive(Default)]
pub(super) struct Watches(Mutex<HashMap<Holder, Watch>>);

struct Watch {
    number: u64,
    /// Once for each subscription, with its caller.
    topics: Vec<WatchedTopic>,
}

pub(super) type WatchedTopic = (Topic, Caller);

impl Watches {
    /// Returns the number of a holder with subscriptions.
    pub(super) fn number(&self, holder: &Holder) -> Option<u64> {
        self.0.lock().get(holder).map(|watch| watch.number)
    }

    /// Returns the subscriptions of a holder.
    pub(super) fn of(&self, holder: &Holder) -> Vec<WatchedTopic> {
        self.0.lock().get(holder).map(|watch| watch.topics.clone()).unwrap_or_default()
    }

    /// Adds a subscription, and returns the holder's number; `None` if the same user has
    /// subscriptions with `max` other access tokens.
    pub(super) fn add(&self, holder: &Holder, topic: WatchedTopic, max: usize) -> Option<u64> {
        let mut all = self.0.lock();
        let others = all.keys().filter(|other| other.is_same_user(holder));
        if !all.contains_key(holder) && others.count() >= max {
            return None;
        }
        let watch = all.entry(holder.clone()).or_insert_with(|| Watch {
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            topics: Vec::new(),
        });
        watch.topics.push(topic);
        Some(watch.number)
    }

    /// Removes a subscription of the holder with this number. Returns the holder.
    pub(super) fn remove(&self, number: u64, topic: &Topic) -> Option<Holder> {
        let mut all = self.0.lock();
        let (holder, watch) = all.iter_mut().find(|(_, watch)| watch.number == number)?;
        let at = watch.topics.iter().position(|(known, _)| known == topic)?;
        watch.topics.swap_remove(at);
        let is_last = watch.topics.is_empty();
        let holder = holder.clone();
        if is_last {
            all.remove(&holder);
        }
        Some(holder)
    }
}

#[cfg(test)]
mod tests;
