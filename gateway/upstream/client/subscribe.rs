//! Subscriptions of clients to resources and tasks: counted per topic, requested from the server
//! once, and renewed after every reconnect.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use lockgate_admission::spawn;
use lockgate_protocol::code;
use lockgate_protocol::jsonrpc::Outcome;
use lockgate_protocol::key::Key;
use lockgate_protocol::method::Method;
use lockgate_protocol::revision::Era;
use lockgate_protocol::write;
use scopeguard::{ScopeGuard, guard};

use crate::call::{Caller, Subscription};
use crate::connection::{Ask, Connection};
use crate::failure::{Result, UpstreamError, UpstreamErrorKind};
use crate::shared::Shared;
use crate::topics::Topic;

/// Time for a server to acknowledge a subscription.
const ACKNOWLEDGE_TIMEOUT: Duration = Duration::from_secs(3);

/// Number of subscriptions renewed concurrently on a connection.
const MAX_CONCURRENT_RENEWALS: usize = 16;
/// Pause before a session's lost connection is reopened; doubles up to `MAX_PAUSE`.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const MAX_PAUSE: Duration = Duration::from_secs(30);

impl Shared {
    /// Subscribes within the timeout of a call: to a resource on the connection used by the
    /// caller's calls, to a task on the shared connection.
    pub(super) async fn subscribe(
        self: &Arc<Self>,
        topic: &Topic,
        caller: &Caller,
    ) -> Result<Subscription> {
        let subscribing = self.subscribe_there(topic, caller);
        let limit = self.config.load().call_timeout;
        tokio::time::timeout(limit, subscribing).await.map_err(|_| not_confirmed())?
    }

    async fn subscribe_there(
        self: &Arc<Self>,
        topic: &Topic,
        caller: &Caller,
    ) -> Result<Subscription> {
        let route = match topic {
            Topic::Resource(uri) => self.connection_for(caller, (Method::Subscribe, uri)).await?,
            Topic::Task(_) => self.shared_route().await?,
        };
        let connection = &route.connection;
        let offers = &connection.peer.server.offers;
        let is_offered = match (topic, connection.era()) {
            (Topic::Resource(_), _) => offers.subscribe,
            // The server sends task updates without a subscription.
            (Topic::Task(_), Era::Legacy) if offers.legacy_tasks => {
                return Ok(Subscription::Shared);
            }
            (Topic::Task(_), era) => era == Era::Modern && offers.tasks,
        };
        if !is_offered {
            let words = "the server does not offer subscriptions";
            return Err(UpstreamErrorKind::Garbage.error(words));
        }
        let on = connection.receiver.behind.subscription();
        let added = self.topics.add(on, topic);
        // A subscription that is not confirmed is withdrawn.
        let claim = guard(on, |on| {
            if self.topics.remove(on, topic) && on == Subscription::Shared {
                self.topics.changed.notify_one();
            }
        });
        if let (Subscription::Session(_), Some(over)) = (on, added.begun) {
            let kept = keep_connection(Arc::clone(self), caller.clone(), Arc::clone(connection));
            let kept = over.run_until_cancelled_owned(kept);
            spawn(self.closing.clone().run_until_cancelled_owned(kept));
        }
        match (connection.era(), topic) {
            (Era::Legacy, Topic::Resource(uri)) => {
                subscribe_confirmed(connection, uri, added.is_first).await?
            }
            _ => self.acknowledged(topic, added.is_first).await?,
        }
        ScopeGuard::into_inner(claim);
        Ok(on)
    }

    async fn acknowledged(&self, topic: &Topic, is_first: bool) -> Result<()> {
        if is_first {
            self.topics.changed.notify_one();
        }
        let acknowledged = self.topics.acknowledged(topic);
        tokio::time::timeout(ACKNOWLEDGE_TIMEOUT, acknowledged).await.map_err(|_| {
            let words = "the server did not acknowledge the subscription";
            UpstreamErrorKind::Timeout.error(words)
        })
    }

    pub(super) async fn unsubscribe(&self, topic: &Topic, given: Subscription) {
        if !self.topics.remove(given, topic) {
            return;
        }
        let connection = match given {
            Subscription::Session(session) => self.sessions.find(session),
            Subscription::Shared => self.live.load_full(),
            // A caller of this client subscribes on one of its connections.
            Subscription::Account(_) => None,
        };
        let Some(connection) = connection else { return };
        match (connection.era(), topic) {
            (Era::Modern, _) => self.topics.changed.notify_one(),
            (Era::Legacy, Topic::Resource(uri)) => {
                connection.subscribed.lock().remove(uri);
                let params = [(Key::Uri, Some(write::quoted(uri)))];
                let ask = Ask::own(Method::Unsubscribe, &params);
                let _ = tokio::time::timeout(ACKNOWLEDGE_TIMEOUT, connection.simple(ask)).await;
            }
            (Era::Legacy, Topic::Task(_)) => {}
        }
    }

    /// Renews all subscriptions on a new connection to a legacy server: up to
    /// [`MAX_CONCURRENT_RENEWALS`] concurrently, so that a call waiting for the connection does not
    /// wait for one response after another.
    pub(crate) async fn renew_subscriptions(&self, connection: &Connection) {
        let topics = self.topics.on(connection.receiver.behind.subscription());
        for some in topics.chunks(MAX_CONCURRENT_RENEWALS) {
            let asking = some.iter().filter_map(|topic| match topic {
                Topic::Resource(uri) => Some(subscribe_legacy(connection, uri)),
                Topic::Task(_) => None,
            });
            for failure in join_all(asking).await.into_iter().filter_map(Result::err) {
                tracing::debug!(server = %self.id, %failure, "a subscription could not be \
                    renewed");
            }
        }
    }
}

/// Reopens a session's connection whenever it is lost, to keep receiving its notifications.
async fn keep_connection(shared: Arc<Shared>, caller: Caller, first: Arc<Connection>) {
    let mut connection = first;
    loop {
        connection.receiver.over.wait().await;
        let mut pause = FIRST_PAUSE;
        connection = loop {
            tokio::time::sleep(pause).await;
            match shared.connection_for(&caller, (Method::Subscribe, "")).await {
                Ok(route) if route.connection.receiver.behind.session_key().is_some() => {
                    break route.connection;
                }
                // Its calls currently use the shared connection.
                Ok(_) => tracing::debug!(server = %shared.id, "a session with subscriptions is \
                    waiting for its own connection"),
                Err(failure) => {
                    tracing::debug!(server = %shared.id, %failure, "no connection yet for a \
                        session with subscriptions");
                }
            }
            pause = (pause * 2).min(MAX_PAUSE);
        };
    }
}

/// Subscribes, unless the server has already confirmed the URI on this connection.
async fn subscribe_confirmed(connection: &Connection, uri: &str, is_first: bool) -> Result<()> {
    if !is_first && connection.subscribed.lock().contains(uri) {
        return Ok(());
    }
    subscribe_legacy(connection, uri).await
}

fn not_confirmed() -> UpstreamError {
    UpstreamErrorKind::Timeout.error("the server did not confirm the subscription")
}

async fn subscribe_legacy(connection: &Connection, uri: &str) -> Result<()> {
    let params = [(Key::Uri, Some(write::quoted(uri)))];
    let asking = connection.ask(Ask::own(Method::Subscribe, &params));
    let answered =
        tokio::time::timeout(ACKNOWLEDGE_TIMEOUT, asking).await.map_err(|_| not_confirmed())?;
    let response = answered?;
    if let Outcome::Error(error) = &response.outcome {
        let mut failure = UpstreamError::refused(Method::Subscribe, *error, &response.text);
        if matches!(error.code, code::RESOURCE_NOT_FOUND | code::INVALID_PARAMS) {
            failure.kind = UpstreamErrorKind::NotFound;
        }
        return Err(failure);
    }
    connection.subscribed.lock().insert(uri.to_owned());
    Ok(())
}
