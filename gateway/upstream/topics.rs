//! Subscriptions of clients to the resources and tasks of a server, with reference counts.

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
        let mut uris = Vec::new();
        for topic in self.counts.lock().keys() {
            if let Topic::Resource(uri) = topic {
                uris.push(uri.clone());
            }
        }
        uris
    }

    pub(crate) fn tasks(&self) -> Vec<String> {
        let mut ids = Vec::new();
        for topic in self.counts.lock().keys() {
            if let Topic::Task(id) = topic {
                ids.push(id.clone());
            }
        }
        ids
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
        let mut counts = self.counts.lock();
        let count = counts.entry(topic.clone()).or_default();
        *count += 1;
        *count == 1
    }

    pub(crate) fn remove(&self, topic: &Topic) -> bool {
        let mut counts = self.counts.lock();
        match counts.get_mut(topic) {
            Some(1) => {
                // A new subscription waits for its own acknowledgement.
                self.acknowledged.lock().remove(topic);
                counts.remove(topic).is_some()
            }
            Some(count) => {
                *count -= 1;
                false
            }
            None => false,
        }
    }
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
        let count = topics.counts.entry(uri.to_owned()).or_default();
        *count += 1;
        Added { first: *count == 1, begun }
    }

    /// Removes a subscription. Returns true if the session has no other subscription to the
    /// resource.
    pub(crate) fn remove(&self, session: u64, uri: &str) -> bool {
        let mut all = self.0.lock();
        let Some(topics) = all.get_mut(&session) else { return false };
        match topics.counts.get_mut(uri) {
            Some(count) if *count > 1 => {
                *count -= 1;
                return false;
            }
            Some(_) => drop(topics.counts.remove(uri)),
            None => return false,
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
