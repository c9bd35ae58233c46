//! Connections that each serve a single client, for legacy servers that keep state or ask
//! questions. A client is a legacy session or its equivalent for modern clients.

use std::sync::Arc;
use std::time::Duration;

use lockgate_admission::spawn;
use lockgate_protocol::method::Method;
use lockgate_protocol::revision::Era;
use lockgate_text::json;
use serde_json::Value;

use crate::call::{Call, Caller, ClientSession};
use crate::catalog::ListKind;
use crate::connection::{CLOSE_GRACE_PERIOD, Connection};
use crate::failure::{Result, UpstreamError, UpstreamErrorKind};
use crate::open::{follow_session, open};
use crate::receiver::{Behind, SessionBehind};
use crate::session_connections::{Owner, SlotLimits, SlotUse};
use crate::shared::Shared;
use crate::{BoxFuture, config, health};

/// The connection for a request, kept open until the route is dropped.
pub(super) struct Route<'a> {
    pub(super) connection: Arc<Connection>,
    _used: Option<SlotUse<'a>>,
}

impl Shared {
    /// Returns the connection for a caller's request: the session's own if the server's
    /// configuration and era require it, otherwise the shared connection.
    pub(super) async fn connection_for(
        self: &Arc<Self>,
        caller: &Caller,
        about: (Method, &str),
    ) -> Result<Route<'_>> {
        match self.own_connection_for(caller, about).await? {
            Some(own) => Ok(own),
            None => self.shared_route().await,
        }
    }

    /// Returns the shared connection as a route.
    pub(super) async fn shared_route(&self) -> Result<Route<'_>> {
        Ok(Route { connection: self.shared_connection().await?, _used: None })
    }

    /// Returns the session's own connection, if its requests require it.
    pub(super) async fn own_connection_for(
        self: &Arc<Self>,
        caller: &Caller,
        about: (Method, &str),
    ) -> Result<Option<Route<'_>>> {
        let Some(session) = &caller.session else { return Ok(None) };
        let live = self.live.load();
        let wants_own = match &*live {
            Some(shared) => self.wants_own(shared, caller, about),
            None => self.wants_own(&*Box::pin(self.shared_connection()).await?, caller, about),
        };
        drop(live);
        if !wants_own { Ok(None) } else { self.own_connection(session, caller).await.map(Some) }
    }

    /// Reports whether the shared connection already serves this caller alone.
    fn is_sole(&self, shared: &Connection, caller: &Caller) -> bool {
        let Some(single_client) = &self.around.single_client else { return false };
        shared.era() == Era::Legacy
            && single_client.has_declared(&caller.capabilities)
            && caller.session.as_ref().is_some_and(|session| !session.is_further())
    }

    /// Reports whether a call uses its client's own connection.
    fn wants_own(&self, shared: &Connection, caller: &Caller, about: (Method, &str)) -> bool {
        if self.is_sole(shared, caller) {
            return false;
        }
        let by_caller = match self.config.load().sessions {
            config::Sessions::Shared => false,
            config::Sessions::Client => true,
            config::Sessions::Auto => caller.interactive,
        };
        match shared.era() {
            Era::Legacy => by_caller,
            // Items offered only in the legacy era are for legacy clients.
            Era::Modern => {
                by_caller
                    && caller.era == Era::Legacy
                    && self.interactive.is_dual()
                    && (self.interactive.offers(about.0, about.1)
                        || self.has_own_item(caller, about))
            }
        }
    }

    /// Reports whether the requested item is listed only on the caller's own connection.
    fn has_own_item(&self, caller: &Caller, about: (Method, &str)) -> bool {
        let Some(kind) = ListKind::of_call(about.0) else { return false };
        let session = caller.session.as_ref();
        let own = session.and_then(|session| self.sessions.find(session.key()));
        let lists = own.and_then(|connection| connection.receiver.own_lists.lists());
        lists.is_some_and(|lists| lists.added(kind).iter().any(|item| *item.key == *about.1))
    }

    #[inline(never)]
    fn own_connection<'a: 'b, 'b>(
        self: &'a Arc<Self>,
        session: &'b Arc<dyn ClientSession>,
        caller: &'b Caller,
    ) -> BoxFuture<'b, Result<Route<'a>>> {
        Box::pin(async move {
            let key = session.key();
            let is_modern = caller.era == Era::Modern;
            let owner = Owner { key, principal: caller.id.principal(), is_modern };
            loop {
                let config = self.config.load_full();
                let limits = SlotLimits {
                    connections: config.limits.client_connections,
                    waiting: config.limits.queue,
                    wait: config.stall_timeout,
                };
                let Some(used) = self.sessions.slot(owner, limits).await else {
                    return Err(self.no_client_connection(limits, is_modern));
                };
                let opened = used.slot.get_or_try_init(|| self.open_for(session, caller)).await?;
                let connection = Arc::clone(opened);
                if !self.sessions.holds(key, &used) {
                    // The client ended its session while the connection was being opened.
                    spawn(async move { connection.close(CLOSE_GRACE_PERIOD).await });
                    return Err(UpstreamErrorKind::Lost.error("the client's session has ended"));
                }
                if connection.is_open() {
                    return Ok(Route { connection, _used: Some(used) });
                }
                // It ended while it was idle. No byte of this request was sent on it.
                self.sessions.remove(key, &connection);
                spawn(async move { connection.close(CLOSE_GRACE_PERIOD).await });
            }
        })
    }

    fn no_client_connection(&self, limits: SlotLimits, is_modern: bool) -> UpstreamError {
        self.note_refusal("calls rejected: all client connections are in use");
        let most = limits.connections;
        let words = if is_modern {
            let own = most.div_ceil(2);
            format!(
                "all {own} connections for the calls of one caller, or all {most} for clients, \
                    are in use (servers.NAME.client_connections); answer the open questions, or \
                    retry later"
            )
        } else {
            format!(
                "all {most} connections for clients are in use (servers.NAME.client_connections)"
            )
        };
        UpstreamErrorKind::ClientConnections.error(words).retry_after(limits.wait)
    }

    async fn open_for(
        self: &Arc<Self>,
        session: &Arc<dyn ClientSession>,
        caller: &Caller,
    ) -> Result<Arc<Connection>> {
        let mut capabilities: Value = json::from_slice(&caller.capabilities).unwrap_or(Value::Null);
        if let Some(Value::Object(roots)) = capabilities.get_mut("roots")
            && session.tells_roots_changes()
        {
            roots.insert("listChanged".into(), true.into());
        }
        let behind = Behind::Session(Arc::new(SessionBehind {
            key: session.key(),
            session: Arc::downgrade(session),
            capabilities: capabilities.to_string().into(),
            assertion: caller.assertion.clone(),
        }));
        let connection = open(self, behind).await.map_err(|refused| {
            let trouble = &refused.trouble;
            if refused.needs_auth {
                UpstreamErrorKind::NeedsAuth.error(trouble.to_string())
            } else if trouble.is_timeout() {
                // The caller sees this message, but not those of the other kinds.
                UpstreamErrorKind::Timeout.error(trouble.reason())
            } else {
                UpstreamErrorKind::Unavailable.error(trouble.to_string())
            }
        })?;
        let connection = Arc::new(connection);
        follow_session(&connection).await;
        self.renew_subscriptions(&connection).await;
        // Changes may have been missed.
        connection.tell_updated();
        let asked = caller.interactive.then_some(caller.era);
        let server = Arc::clone(self);
        let watched = Arc::clone(&connection);
        spawn(async move {
            tokio::select! {
                // Its next call opens another.
                words = health::watch(&server.config, &server.silent_ends, &watched, |_| {}) => {
                    server.silent_ends.record();
                    tracing::warn!(words, "closing the connection of a session");
                    let _ = watched.receiver.over.set(words);
                    watched.close(Duration::ZERO).await;
                }
                _ = watched.receiver.over.wait() => {}
                () = server.follow_own_lists(&watched, asked) => {}
            }
            server.end_own_lists(&watched);
        });
        Ok(connection)
    }

    /// Drops a dead connection, so that the next call opens another.
    pub(super) fn renew(&self, call: &Call<'_>, lost: &Arc<Connection>, words: &str) {
        let shared = self.live.load();
        if shared.as_ref().is_some_and(|live| Arc::ptr_eq(live, lost)) {
            let _ = lost.receiver.over.set(words.to_owned());
            self.live.compare_and_swap(&*shared, None);
            self.set_status(|status| status.state = crate::UpstreamState::Pending);
        } else if let Some(session) = &call.caller.session {
            self.sessions.remove(session.key(), lost);
            let _ = lost.receiver.over.set(words.to_owned());
        }
    }
}
