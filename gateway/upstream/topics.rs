//! What clients want to hear of resources and tasks of one server, counted for each.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// Something of a server that may have news.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Topic {
    /// A resource, by its URI.
    Resource(String),
    /// A task, by its id.
    Task(String),
}

/// What clients want to hear of.
#[derive(Default)]
pub(crate) struct Wanted {
    counts: Mutex<BTreeMap<Topic, usize>>,
    /// The set of topics has changed: the listen stream has to be replaced.
    pub(crate) changed: Notify,
    acknowledged: Mutex<BTreeSet<Topic>>,
    pub(crate) news: Notify,
}

impl Wanted {
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

    /// Whether nobody wants to hear of anything.
    pub(crate) fn is_empty(&self) -> bool {
        self.counts.lock().is_empty()
    }

    /// A modern server has acknowledged these.
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
                // Whoever wants it again waits for an acknowledgement of its own.
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

/// Resources that sessions with a connection of their own want to hear of, by session.
#[derive(Default)]
pub(crate) struct SessionTopics(Mutex<HashMap<u64, OfSession>>);

#[derive(Default)]
struct OfSession {
    counts: BTreeMap<String, usize>,
    /// Cancelled when there are none any more.
    over: CancellationToken,
}

/// What a resource is to a session that wants to hear of it.
pub(crate) struct Added {
    /// Nobody in the session wanted it before.
    pub(crate) first: bool,
    /// The session wanted nothing before: cancelled when it wants nothing again.
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

    /// True when nobody in the session wants it any more.
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

    /// The session has ended.
    pub(crate) fn forget(&self, session: u64) {
        if let Some(topics) = self.0.lock().remove(&session) {
            topics.over.cancel();
        }
    }
}
