//! Subscriptions of clients to the resources and tasks of a server, with reference counts.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use crate::call::{ServerId, Subscription};
use crate::{Event, ResourceUpdate};

/// An object of a server with update notifications.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Topic {
    /// A resource, by the server's own URI.
    Resource(String),
    /// A task (tasks extension), by the server's own id.
    Task(String),
}

impl Topic {
    /// Returns the event of an update, as reported on this connection.
    pub fn updated(self, server: ServerId, on: Subscription) -> Event {
        match self {
            Self::Resource(uri) => Event::Updated(ResourceUpdate { server, uri: uri.into(), on }),
            Self::Task(id) => Event::Task { server, id: id.into() },
        }
    }
}

/// The subscriptions on each connection.
#[derive(Default)]
pub(crate) struct Topics {
    connections: Mutex<HashMap<Subscription, Counts>>,
    /// Signals a change on the shared connection: its listen stream has to be replaced.
    pub(crate) changed: Notify,
    /// The topics that a modern server has acknowledged.
    acknowledged: watch::Sender<BTreeSet<Topic>>,
}

#[derive(Default)]
struct Counts {
    topics: BTreeMap<Topic, usize>,
    /// Cancelled when no subscriptions are left.
    over: CancellationToken,
}

/// The effect of a new subscription on its connection.
pub(crate) struct Added {
    /// Whether it is the first to this topic.
    pub(crate) is_first: bool,
    /// Present for the connection's first subscription. Cancelled when none are left.
    pub(crate) begun: Option<CancellationToken>,
}

impl Topics {
    pub(crate) fn add(&self, on: Subscription, topic: &Topic) -> Added {
        let mut connections = self.connections.lock();
        let counts = connections.entry(on).or_default();
        let begun = counts.topics.is_empty().then(|| counts.over.clone());
        let count = counts.topics.entry(topic.clone()).or_default();
        *count += 1;
        Added { is_first: *count == 1, begun }
    }

    /// Removes a subscription. Returns whether it was the connection's last to this topic.
    pub(crate) fn remove(&self, on: Subscription, topic: &Topic) -> bool {
        let mut connections = self.connections.lock();
        let Some(counts) = connections.get_mut(&on) else { return false };
        let Some(count) = counts.topics.get_mut(topic) else { return false };
        *count -= 1;
        if *count > 0 {
            return false;
        }
        counts.topics.remove(topic);
        if counts.topics.is_empty() {
            counts.over.cancel();
            connections.remove(&on);
        }
        if on == Subscription::Shared {
            // A new subscription waits for its own acknowledgement.
            self.acknowledged.send_modify(|acknowledged| {
                acknowledged.remove(topic);
            });
        }
        true
    }

    /// Returns the topics on a connection.
    pub(crate) fn on(&self, on: Subscription) -> Vec<Topic> {
        let connections = self.connections.lock();
        let Some(counts) = connections.get(&on) else { return Vec::new() };
        counts.topics.keys().cloned().collect()
    }

    /// Reports whether there are subscriptions on the shared connection.
    pub(crate) fn are_shared(&self) -> bool {
        self.connections.lock().contains_key(&Subscription::Shared)
    }

    /// Removes the subscriptions of a session that has ended.
    pub(crate) fn forget(&self, session: u64) {
        if let Some(counts) = self.connections.lock().remove(&Subscription::Session(session)) {
            counts.over.cancel();
        }
    }

    /// Records the topics that a modern server has acknowledged.
    pub(crate) fn acknowledge(&self, topics: BTreeSet<Topic>) {
        self.acknowledged.send_replace(topics);
    }

    /// Waits until a modern server has acknowledged the topic.
    pub(crate) async fn acknowledged(&self, topic: &Topic) {
        let mut acknowledged = self.acknowledged.subscribe();
        let _ = acknowledged.wait_for(|known| known.contains(topic)).await;
    }
}
