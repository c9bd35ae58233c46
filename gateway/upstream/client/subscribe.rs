//! Resource subscriptions: counted per URI, asked of the server once, and asked again after every reconnect.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use lockgate_protocol::method::Method;
use lockgate_protocol::revision::Era;
use lockgate_protocol::write;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::Shared;
use crate::connection::{Ask, Connection};
use crate::failure::{Failure, Kind};

/// How long a modern server may take to acknowledge.
const ACKNOWLEDGE: Duration = Duration::from_secs(3);

/// What clients want to hear of.
#[derive(Default)]
pub(crate) struct Wanted {
    counts: Mutex<BTreeMap<String, usize>>,
    /// The set of URIs has changed: the listen stream has to be replaced.
    pub(crate) changed: Notify,
    acknowledged: Mutex<BTreeSet<String>>,
    pub(crate) news: Notify,
}

impl Wanted {
    pub(crate) fn uris(&self) -> Vec<String> {
        self.counts.lock().keys().cloned().collect()
    }

    /// A modern server has acknowledged these.
    pub(crate) fn acknowledge(&self, uris: BTreeSet<String>) {
        *self.acknowledged.lock() = uris;
        self.news.notify_waiters();
    }

    fn add(&self, uri: &str) -> bool {
        let mut counts = self.counts.lock();
        let count = counts.entry(uri.to_owned()).or_default();
        *count += 1;
        *count == 1
    }

    fn remove(&self, uri: &str) -> bool {
        let mut counts = self.counts.lock();
        match counts.get_mut(uri) {
            Some(1) => counts.remove(uri).is_some(),
            Some(count) => {
                *count -= 1;
                false
            }
            None => false,
        }
    }
}

impl Shared {
    pub(super) async fn subscribe(&self, uri: &str) -> Result<(), Failure> {
        let connection = self.shared_connection().await?;
        if !connection.peer.offers.subscribe {
            return Err(Failure::new(Kind::Garbage, "the server does not offer subscriptions"));
        }
        let first = self.wanted.add(uri);
        let result = match connection.era() {
            Era::Legacy if first => subscribe_legacy(&connection, uri).await,
            Era::Legacy => Ok(()),
            Era::Modern => self.acknowledged(uri, first).await,
        };
        if result.is_err() && self.wanted.remove(uri) {
            self.wanted.changed.notify_one();
        }
        result
    }

    async fn acknowledged(&self, uri: &str, first: bool) -> Result<(), Failure> {
        if first {
            self.wanted.changed.notify_one();
        }
        let wait = async {
            loop {
                let news = self.wanted.news.notified();
                if self.wanted.acknowledged.lock().contains(uri) {
                    return;
                }
                news.await;
            }
        };
        let late = |_| Failure::new(Kind::Timeout, "the server did not acknowledge the subscription");
        tokio::time::timeout(ACKNOWLEDGE, wait).await.map_err(late)
    }

    pub(super) async fn unsubscribe(&self, uri: &str) {
        if !self.wanted.remove(uri) {
            return;
        }
        let Some(connection) = self.live.load_full() else { return };
        match connection.era() {
            Era::Modern => self.wanted.changed.notify_one(),
            Era::Legacy => {
                connection.subscribed.lock().remove(uri);
                let params = [("uri", Some(write::quoted(uri)))];
                let ask = Ask::own(Method::Unsubscribe, &params);
                let _ = tokio::time::timeout(ACKNOWLEDGE, connection.simple(ask)).await;
            }
        }
    }

    /// After a reconnect to a legacy server: asks again for everything that clients want.
    pub(crate) async fn replay(&self, connection: &Arc<Connection>) {
        for uri in self.wanted.uris() {
            if let Err(failure) = subscribe_legacy(connection, &uri).await {
                tracing::debug!(server = %self.slug, %failure, "a subscription could not be renewed");
            }
        }
    }
}

async fn subscribe_legacy(connection: &Connection, uri: &str) -> Result<(), Failure> {
    let params = [("uri", Some(write::quoted(uri)))];
    let late = |_| Failure::new(Kind::Timeout, "the server did not confirm the subscription");
    tokio::time::timeout(ACKNOWLEDGE, connection.simple(Ask::own(Method::Subscribe, &params)))
        .await
        .map_err(late)??;
    connection.subscribed.lock().insert(uri.to_owned());
    Ok(())
}
