//! The subscriptions that callers have at a server with accounts of users, whether or not an
//! account is connected.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use lockgate_accounts::Holder;
use lockgate_upstream::{Caller, CallerIdentity, Client, Subscription, Upstream, UpstreamError};
use parking_lot::Mutex;

/// The number of the next holder with subscriptions, at any server.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// The holders with subscriptions on their shared connections.
#[derive(Default)]
pub(super) struct Watches(Mutex<HashMap<Holder, Watch>>);

struct Watch {
    number: u64,
    /// Once for each subscription.
    topics: Vec<Topic>,
}

/// A subscription to a resource, by the server's own URI, or to a task, by its own id.
#[derive(Clone)]
pub(super) enum Topic {
    Resource(String, Caller),
    Task(String),
}

impl Topic {
    pub(super) fn is_resource(&self, uri: &str) -> bool {
        matches!(self, Self::Resource(known, _) if known == uri)
    }

    pub(super) fn is_task(&self, id: &str) -> bool {
        matches!(self, Self::Task(known) if known == id)
    }

    pub(super) async fn subscribe(
        &self,
        client: &Client,
        identity: CallerIdentity<'_>,
    ) -> Result<Subscription, UpstreamError> {
        match self {
            Self::Resource(uri, caller) => client.subscribe(uri, caller, identity).await,
            Self::Task(id) => client.watch_task(id, identity).await.map(|()| Subscription::Shared),
        }
    }

    pub(super) async fn unsubscribe(&self, client: &Client, identity: CallerIdentity<'_>) {
        match self {
            Self::Resource(uri, _) => client.unsubscribe(uri, Subscription::Shared).await,
            Self::Task(id) => client.unwatch_task(id, identity).await,
        }
    }
}

impl Watches {
    /// Returns the number of a holder with subscriptions.
    pub(super) fn number(&self, holder: &Holder) -> Option<u64> {
        self.0.lock().get(holder).map(|watch| watch.number)
    }

    /// Returns the subscriptions of a holder.
    pub(super) fn of(&self, holder: &Holder) -> Vec<Topic> {
        self.0.lock().get(holder).map(|watch| watch.topics.clone()).unwrap_or_default()
    }

    /// Adds a subscription, and returns the holder's number; `None` if the same user has
    /// subscriptions with `max` other access tokens.
    pub(super) fn add(&self, holder: &Holder, topic: Topic, max: usize) -> Option<u64> {
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

    /// Removes a subscription to a resource. Returns its holder.
    pub(super) fn remove(&self, number: u64, uri: &str) -> Option<Holder> {
        let all = self.0.lock();
        let (holder, _) = all.iter().find(|(_, watch)| watch.number == number)?;
        let holder = holder.clone();
        drop(all);
        self.remove_of(&holder, |topic| topic.is_resource(uri)).then_some(holder)
    }

    /// Removes a subscription of a holder. Returns `false` if there is none.
    pub(super) fn remove_of(&self, holder: &Holder, is_it: impl Fn(&Topic) -> bool) -> bool {
        let mut all = self.0.lock();
        let Some(watch) = all.get_mut(holder) else { return false };
        let Some(at) = watch.topics.iter().position(is_it) else { return false };
        watch.topics.swap_remove(at);
        if watch.topics.is_empty() {
            all.remove(holder);
        }
        true
    }
}

#[cfg(test)]
mod tests;
