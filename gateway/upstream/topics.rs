//! What clients want to hear of resources and tasks of one server, counted for each.

use std::collections::{BTreeMap, BTreeSet};

use parking_lot::Mutex;
use tokio::sync::Notify;

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
        let uri =
            |topic: &Topic| if let Topic::Resource(uri) = topic { Some(uri.clone()) } else { None };
        self.counts.lock().keys().filter_map(uri).collect()
    }

    pub(crate) fn tasks(&self) -> Vec<String> {
        let id = |topic: &Topic| if let Topic::Task(id) = topic { Some(id.clone()) } else { None };
        self.counts.lock().keys().filter_map(id).collect()
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
