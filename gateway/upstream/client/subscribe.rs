//! What clients want to hear of resources and tasks: counted for each, asked of the server once,
//! and asked again after every reconnect.

use std::sync::Arc;
use std::time::Duration;

use lockgate_protocol::code;
use lockgate_protocol::jsonrpc::Outcome;
use lockgate_protocol::method::Method;
use lockgate_protocol::revision::Era;
use lockgate_protocol::write;

use crate::connection::{Ask, Connection, refused};
use crate::failure::{Failure, Kind};
use crate::shared::Shared;
use crate::topics::Topic;

/// How long a modern server may take to acknowledge.
const ACKNOWLEDGE: Duration = Duration::from_secs(3);

impl Shared {
    pub(super) async fn subscribe(&self, uri: &str) -> Result<(), Failure> {
        let connection = self.shared_connection().await?;
        if !connection.peer.offers.subscribe {
            return Err(Failure::new(Kind::Garbage, "the server does not offer subscriptions"));
        }
        let topic = Topic::Resource(uri.to_owned());
        let first = self.wanted.add(&topic);
        let result = match connection.era() {
            Era::Legacy if first => subscribe_legacy(&connection, uri).await,
            Era::Legacy => Ok(()),
            Era::Modern => self.acknowledged(&topic, first).await,
        };
        if result.is_err() && self.wanted.remove(&topic) {
            self.wanted.changed.notify_one();
        }
        result
    }

    pub(super) async fn watch_task(&self, id: &str) -> Result<(), Failure> {
        let connection = self.shared_connection().await?;
        if connection.era() != Era::Modern || !connection.peer.offers.tasks {
            return Err(Failure::new(Kind::Garbage, "the server has no tasks"));
        }
        let topic = Topic::Task(id.to_owned());
        let first = self.wanted.add(&topic);
        let result = self.acknowledged(&topic, first).await;
        if result.is_err() && self.wanted.remove(&topic) {
            self.wanted.changed.notify_one();
        }
        result
    }

    pub(super) fn unwatch_task(&self, id: &str) {
        if self.wanted.remove(&Topic::Task(id.to_owned())) {
            self.wanted.changed.notify_one();
        }
    }

    async fn acknowledged(&self, topic: &Topic, first: bool) -> Result<(), Failure> {
        if first {
            self.wanted.changed.notify_one();
        }
        let wait = async {
            loop {
                let news = self.wanted.news.notified();
                if self.wanted.is_acknowledged(topic) {
                    return;
                }
                news.await;
            }
        };
        let late =
            |_| Failure::new(Kind::Timeout, "the server did not acknowledge the subscription");
        tokio::time::timeout(ACKNOWLEDGE, wait).await.map_err(late)
    }

    pub(super) async fn unsubscribe(&self, uri: &str) {
        if !self.wanted.remove(&Topic::Resource(uri.to_owned())) {
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
    let response =
        tokio::time::timeout(ACKNOWLEDGE, connection.ask(Ask::own(Method::Subscribe, &params)));
    let response = response.await.map_err(late)??;
    if let Outcome::Error(error) = &response.outcome {
        let mut failure = refused(Method::Subscribe, *error, &response.text);
        if matches!(error.code, code::RESOURCE_NOT_FOUND | code::INVALID_PARAMS) {
            failure.kind = Kind::NotFound;
        }
        return Err(failure);
    }
    connection.subscribed.lock().insert(uri.to_owned());
    Ok(())
}
