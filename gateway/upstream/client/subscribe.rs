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
use crate::connection::{Ask, Connection, refused};
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
    /// Subscribes on the connection used by the caller's calls, within the timeout of a call.
    pub(super) async fn subscribe(
        self: &Arc<Self>,
        uri: &str,
        caller: &Caller,
    ) -> Result<Subscription> {
        let subscribing = self.subscribe_there(uri, caller);
        let limit = self.config.load().call_timeout;
        tokio::time::timeout(limit, subscribing).await.map_err(|_| not_confirmed())?
    }

    async fn subscribe_there(self: &Arc<Self>, uri: &str, caller: &Caller) -> Result<Subscription> {
        let route = self.connection_for(caller, (Method::Subscribe, uri)).await?;
        let connection = Arc::clone(&route.connection);
        if !connection.peer.server.offers.subscribe {
            return Err(UpstreamError::new(
                UpstreamErrorKind::Garbage,
                "the server does not offer subscriptions",
            ));
        }
        match connection.receiver.behind.session_key() {
            Some(session) => {
                self.subscribe_session(uri, caller, &connection, session).await?;
                Ok(Subscription::Session(session))
            }
            None => {
                self.subscribe_shared(&Topic::Resource(uri.to_owned()), &connection).await?;
                Ok(Subscription::Shared)
            }
        }
    }

    async fn subscribe_shared(&self, topic: &Topic, connection: &Connection) -> Result<()> {
        let is_first = self.wanted.add(topic);
        // A subscription that is not confirmed is withdrawn.
        let claim = guard(topic, |topic| self.withdraw(topic));
        match (connection.era(), topic) {
            (Era::Legacy, Topic::Resource(uri)) => {
                subscribe_confirmed(connection, uri, is_first).await?
            }
            _ => self.acknowledged(topic, is_first).await?,
        }
        ScopeGuard::into_inner(claim);
        Ok(())
    }

    /// Subscribes on a session's own connection, which is kept open until the session has no
    /// subscriptions left.
    async fn subscribe_session(
        self: &Arc<Self>,
        uri: &str,
        caller: &Caller,
        connection: &Arc<Connection>,
        session: u64,
    ) -> Result<()> {
        let added = self.session_topics.add(session, uri);
        let claim = guard(session, |session| {
            self.session_topics.remove(session, uri);
        });
        if let Some(over) = added.begun {
            let closing = self.closing.clone();
            let kept = keep_connection(Arc::clone(self), caller.clone(), Arc::clone(connection));
            spawn(async move {
                tokio::select! {
                    () = kept => {}
                    () = over.cancelled() => {}
                    () = closing.cancelled() => {}
                }
            });
        }
        subscribe_confirmed(connection, uri, added.first).await?;
        ScopeGuard::into_inner(claim);
        Ok(())
    }

    /// Renews the session's subscriptions on a reopened connection and reports each as updated,
    /// because changes in between were missed.
    pub(super) async fn renew_subscriptions(&self, connection: &Connection, session: u64) {
        self.subscribe_all(connection, &self.session_topics.uris(session)).await;
        connection.tell_updated();
    }

    pub(super) async fn watch_task(&self, id: &str) -> Result<()> {
        let connection = self.shared_connection().await?;
        let offers = &connection.peer.server.offers;
        match connection.era() {
            // The server sends task updates without a subscription.
            Era::Legacy if offers.legacy_tasks => return Ok(()),
            Era::Modern if offers.tasks => {}
            _ => {
                return Err(UpstreamError::new(
                    UpstreamErrorKind::Garbage,
                    "the server does not support tasks",
                ));
            }
        }
        self.subscribe_shared(&Topic::Task(id.to_owned()), &connection).await
    }

    pub(super) fn unwatch_task(&self, id: &str) {
        self.withdraw(&Topic::Task(id.to_owned()));
    }

    fn withdraw(&self, topic: &Topic) {
        if self.wanted.remove(topic) {
            self.wanted.changed.notify_one();
        }
    }

    async fn acknowledged(&self, topic: &Topic, first: bool) -> Result<()> {
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
        tokio::time::timeout(ACKNOWLEDGE_TIMEOUT, wait).await.map_err(|_| {
            let words = "the server did not acknowledge the subscription";
            UpstreamError::new(UpstreamErrorKind::Timeout, words)
        })
    }

    pub(super) async fn unsubscribe(&self, uri: &str, given: Subscription) {
        let connection = match given {
            Subscription::Session(session) => {
                if !self.session_topics.remove(session, uri) {
                    return;
                }
                self.sessions.find(session)
            }
            Subscription::Shared => {
                if !self.wanted.remove(&Topic::Resource(uri.to_owned())) {
                    return;
                }
                self.live.load_full()
            }
            // A caller of this client subscribes on one of its connections.
            Subscription::Account(_) => return,
        };
        let Some(connection) = connection else { return };
        match connection.era() {
            Era::Modern => self.wanted.changed.notify_one(),
            Era::Legacy => {
                connection.subscribed.lock().remove(uri);
                let params = [(Key::Uri, Some(write::quoted(uri)))];
                let ask = Ask::own(Method::Unsubscribe, &params);
                let _ = tokio::time::timeout(ACKNOWLEDGE_TIMEOUT, connection.simple(ask)).await;
            }
        }
    }

    /// Renews all subscriptions after a reconnect to a legacy server.
    pub(crate) async fn replay(&self, connection: &Arc<Connection>) {
        self.subscribe_all(connection, &self.wanted.uris()).await;
    }

    /// Subscribes to up to [`MAX_CONCURRENT_RENEWALS`] resources concurrently, so that a call
    /// waiting for the connection does not wait for one response after another.
    async fn subscribe_all(&self, connection: &Connection, uris: &[String]) {
        for some in uris.chunks(MAX_CONCURRENT_RENEWALS) {
            let asking = some.iter().map(|uri| subscribe_legacy(connection, uri));
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
    UpstreamError::new(UpstreamErrorKind::Timeout, "the server did not confirm the subscription")
}

async fn subscribe_legacy(connection: &Connection, uri: &str) -> Result<()> {
    let params = [(Key::Uri, Some(write::quoted(uri)))];
    let asking = connection.ask(Ask::own(Method::Subscribe, &params));
    let answered =
        tokio::time::timeout(ACKNOWLEDGE_TIMEOUT, asking).await.map_err(|_| not_confirmed())?;
    let response = answered?;
    if let Outcome::Error(error) = &response.outcome {
        let mut failure = refused(Method::Subscribe, *error, &response.text);
        if matches!(error.code, code::RESOURCE_NOT_FOUND | code::INVALID_PARAMS) {
            failure.kind = UpstreamErrorKind::NotFound;
        }
        return Err(failure);
    }
    connection.subscribed.lock().insert(uri.to_owned());
    Ok(())
}
