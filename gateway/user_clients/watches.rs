//! The subscriptions to resources that callers have at a server with accounts of users, whether or
//! not an account is connected.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use lockgate_accounts::Holder;
use lockgate_upstream::Caller;
use parking_lot::Mutex;

/// The number of the next holder with subscriptions, at any server.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// The holders with subscriptions on their shared connections.
#[derive(Default)]
pub(super) struct Watches(Mutex<HashMap<Holder, Watch>>);

struct Watch {
    number: u64,
    /// Resources by the server's own URIs, once for each subscription, and their callers.
    topics: Vec<(String, Caller)>,
}

impl Watches {
    /// Returns the number of a holder with subscriptions.
    pub(super) fn number(&self, holder: &Holder) -> Option<u64> {
        self.0.lock().get(holder).map(|watch| watch.number)
    }

    /// Returns the subscriptions of a holder.
    pub(super) fn of(&self, holder: &Holder) -> Vec<(String, Caller)> {
        self.0.lock().get(holder).map(|watch| watch.topics.clone()).unwrap_or_default()
    }

    pub(super) fn add(&self, holder: &Holder, uri: &str, caller: &Caller) -> u64 {
        let mut all = self.0.lock();
        let watch = all.entry(holder.clone()).or_insert_with(|| Watch {
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            topics: Vec::new(),
        });
        watch.topics.push((uri.to_owned(), caller.clone()));
        watch.number
    }

    /// Removes a subscription. Returns its holder.
    pub(super) fn remove(&self, number: u64, uri: &str) -> Option<Holder> {
        let mut all = self.0.lock();
        let (holder, watch) = all.iter_mut().find(|(_, watch)| watch.number == number)?;
        let holder = holder.clone();
        let at = watch.topics.iter().position(|(topic, _)| topic == uri)?;
        watch.topics.swap_remove(at);
        if watch.topics.is_empty() {
            all.remove(&holder);
        }
        Some(holder)
    }
}
