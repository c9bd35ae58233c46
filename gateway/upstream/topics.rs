//! Subscriptions of clients to the resources and tasks of a server, with reference counts.

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// An object of a server with update notifications.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Topic {
    /// A resource, by its URI.
    Resource(String),
    /// A task, by its id.
    Task(String),
}

#[derive(Default)]
pub(crate) struct WantedTopics {
    counts: Mutex<BTreeMap<Topic, usize>>,
    /// Signals a change of the set of topics: the listen stream has to be replaced.
    pub(crate) changed: Notify,
    acknowledged: Mutex<BTreeSet<Topic>>,
    pub(crate) news: Notify,
}

impl WantedTopics {
    pub(crate) fn uris(&self) -> Vec<String> {
        self.list(|topic| if let Topic::Resource(uri) = topic { Some(uri) } else { None })
    }

    pub(crate) fn tasks(&self) -> Vec<String> {
        self.list(|topic| if let Topic::Task(id) = topic { Some(id) } else { None })
    }

    fn list(&self, name: impl Fn(&Topic) -> Option<&String>) -> Vec<String> {
        let counts = self.counts.lock();
        let names = counts.keys().filter_map(|topic| name(topic).cloned());
        names.collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.counts.lock().is_empty()
    }

    /// Records the topics that a modern server has acknowledged.
    pub(crate) fn acknowledge(&self, topics: BTreeSet<Topic>) {
        *self.acknowledged.lock() = topics;
        self.news.notify_waiters();
    }

    pub(crate) fn is_acknowledged(&self, topic: &Topic) -> bool {
        self.acknowledged.lock().contains(topic)
    }

    pub(crate) fn add(&self, topic: &Topic) -> bool {
        add(&mut self.counts.lock(), topic.clone())
    }

    pub(crate) fn remove(&self, topic: &Topic) -> bool {
        let mut counts = self.counts.lock();
        let is_last = remove(&mut counts, topic);
        if is_last {
            // A new subscription waits for its own acknowledgement.
            self.acknowledged.lock().remove(topic);
        }
        is_last
    }
}

/// Counts a subscription. Returns whether it is the first to this topic.
fn add<K: Ord>(counts: &mut BTreeMap<K, usize>, topic: K) -> bool {
    let count = counts.entry(topic).or_default();
    *count += 1;
    *count == 1
}

/// Counts a subscription less. Returns whether it was the last to this topic.
fn remove<K: Ord + Borrow<Q>, Q: Ord + ?Sized>(counts: &mut BTreeMap<K, usize>, topic: &Q) -> bool {
    let Some(count) = counts.get_mut(topic) else { return false };
    *count -= 1;
    *count == 0 && counts.remove(topic).is_some()
}

/// Resource subscriptions of sessions with their own connection, by session.
#[derive(Default)]
pub(crate) struct SessionTopics(Mutex<HashMap<u64, OfSession>>);

#[derive(Default)]
struct OfSession {
    counts: BTreeMap<String, usize>,
    /// Cancelled when no subscriptions are left.
    over: CancellationToken,
}

/// The effect of a new subscription on its session.
pub(crate) struct Added {
    /// Whether it is the session's first subscription to the resource.
    pub(crate) first: bool,
    /// Present for the session's first subscription. Cancelled when none are left.
    pub(crate) begun: Option<CancellationToken>,
}

impl SessionTopics {
    pub(crate) fn add(&self, session: u64, uri: &str) -> Added {
        let mut all = self.0.lock();
        let topics = all.entry(session).or_default();
        let begun = topics.counts.is_empty().then(|| topics.over.clone());
        Added { first: add(&mut topics.counts, uri.to_owned()), begun }
    }

    /// Removes a subscription. Returns true if the session has no other subscription to the
    /// resource.
    pub(crate) fn remove(&self, session: u64, uri: &str) -> bool {
        let mut all = self.0.lock();
        let Some(topics) = all.get_mut(&session) else { return false };
        if !remove(&mut topics.counts, uri) {
            return false;
        }
        if topics.counts.is_empty() {
            topics.over.cancel();
            all.remove(&session);
        }
        true
    }

    pub(crate) fn uris(&self, session: u64) -> Vec<String> {
        let all = self.0.lock();
        let Some(topics) = all.get(&session) else { return Vec::new() };
        topics.counts.keys().cloned().collect()
    }

    pub(crate) fn forget(&self, session: u64) {
        if let Some(topics) = self.0.lock().remove(&session) {
            topics.over.cancel();
        }
    }
}
