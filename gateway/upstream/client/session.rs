//! Connections that belong to one client each, for servers that keep state or ask questions in the
//! legacy era: a legacy client's session, or what stands for a modern client.

use std::sync::Arc;

use lockgate_protocol::method::Method;
use lockgate_protocol::revision::Era;
use serde_json::Value;

use crate::call::{Call, Caller, ClientSession};
use crate::config::{self, Transport};
use crate::connection::Connection;
use crate::failure::{Kind, UpstreamError};
use crate::health;
use crate::health::SilentEnds;
use crate::open::{Role, SessionRole, follow_session, open};
use crate::session_connections::{GRACE, MAX_PROCESSES, MAX_SESSIONS};
use crate::settings::Settings;
use crate::shared::Shared;

impl Shared {
    /// The connection for what a caller asks: the session's own where the server's configuration
    /// and era ask for one.
    pub(super) async fn connection_for(
        &self,
        caller: &Caller,
        about: (Method, &str),
    ) -> Result<Arc<Connection>, UpstreamError> {
        let shared = self.shared_connection().await?;
        match &caller.session {
            Some(session)
                if !self.is_sole(&shared, caller) && self.wants_own(&shared, caller, about) =>
            {
                Box::pin(self.own_connection(session, caller, shared)).await
            }
            _ => Ok(shared),
        }
    }

    /// Whether the shared connection is the caller's own already.
    fn is_sole(&self, shared: &Connection, caller: &Caller) -> bool {
        let Some(sole) = &self.around.sole else { return false };
        shared.era() == Era::Legacy
            && sole.has_declared(&caller.capabilities)
            && caller.session.as_ref().is_some_and(|session| !session.is_further())
    }

    /// Whether a call goes out on a connection of its client's own.
    fn wants_own(&self, shared: &Connection, caller: &Caller, about: (Method, &str)) -> bool {
        let by_caller = match self.config.load().sessions {
            config::Sessions::Shared => false,
            config::Sessions::Client => true,
            config::Sessions::Auto => caller.interactive,
        };
        match shared.era() {
            Era::Legacy => by_caller,
            // What it offers in the legacy era alone is for legacy clients.
            Era::Modern => {
                by_caller
                    && caller.era == Era::Legacy
                    && self.interactive.is_dual()
                    && self.interactive.offers(about.0, about.1)
            }
        }
    }

    async fn own_connection(
        &self,
        session: &Arc<dyn ClientSession>,
        caller: &Caller,
        shared: Arc<Connection>,
    ) -> Result<Arc<Connection>, UpstreamError> {
        let most = match self.config.load().transport {
            Transport::Stdio { .. } => MAX_PROCESSES,
            Transport::Http { .. } | Transport::Sse { .. } => MAX_SESSIONS,
        };
        let Some(slot) = self.sessions.slot(session.key(), caller.id.principal(), most) else {
            if self.config.load().sessions == config::Sessions::Client {
                let words = format!("{most} clients have a connection of their own already");
                return Err(UpstreamError::new(Kind::Overloaded, words));
            }
            // Without a question it is answered there as well.
            tracing::info!(server = %self.id, most, "a client shares the connection of all: too \
                many have their own");
            return Ok(shared);
        };
        let connection = slot.get_or_try_init(|| self.open_for(session, caller)).await?;
        if !self.sessions.holds(session.key(), &slot) {
            // The client ended its session while the connection was opened.
            let gone = Arc::clone(connection);
            tokio::spawn(async move { gone.close(GRACE).await });
            return Err(UpstreamError::new(Kind::Lost, "the client's session has ended"));
        }
        if connection.is_open() {
            return Ok(Arc::clone(connection));
        }
        self.sessions.remove(session.key(), connection);
        let lost = Arc::clone(connection);
        tokio::spawn(async move { lost.close(GRACE).await });
        Err(UpstreamError::new(
            Kind::Lost,
            "the server's connection for this session has ended; the next call opens a new one",
        ))
    }

    async fn open_for(
        &self,
        session: &Arc<dyn ClientSession>,
        caller: &Caller,
    ) -> Result<Arc<Connection>, UpstreamError> {
        let mut capabilities: Value =
            serde_json::from_slice(&caller.capabilities).unwrap_or(Value::Null);
        if let Some(Value::Object(roots)) = capabilities.get_mut("roots")
            && session.tells_roots_changes()
        {
            roots.insert("listChanged".into(), true.into());
        }
        let role = Role::Session(SessionRole {
            key: session.key(),
            session: Arc::downgrade(session),
            capabilities,
            voucher: caller.voucher.clone(),
        });
        let (connection, _) = open(self, role).await.map_err(|refused| {
            let kind = if refused.needs_auth { Kind::NeedsAuth } else { Kind::Unavailable };
            UpstreamError::new(kind, refused.trouble.to_string())
        })?;
        let connection = Arc::new(connection);
        follow_session(&connection).await;
        self.renew_subscriptions(&connection, session.key()).await;
        let settings = Arc::clone(&self.config);
        let silent_ends = Arc::clone(&self.silent_ends);
        tokio::spawn(watch(settings, silent_ends, Arc::clone(&connection)));
        Ok(connection)
    }

    /// The server said that it has forgotten the session: the next call opens a new one.
    pub(super) fn renew(&self, call: &Call<'_>, lost: &Arc<Connection>) {
        let shared = self.live.load();
        if shared.as_ref().is_some_and(|live| Arc::ptr_eq(live, lost)) {
            lost.mark_lost("the server has forgotten the session");
            self.live.compare_and_swap(&*shared, None);
            self.set_status(|status| status.state = crate::State::Pending);
        } else if let Some(session) = &call.caller.session {
            self.sessions.remove(session.key(), lost);
            lost.mark_lost("the server has forgotten the session");
        }
    }
}

/// Ends a session's connection that hangs; its next call opens another one.
async fn watch(settings: Arc<Settings>, silent_ends: Arc<SilentEnds>, connection: Arc<Connection>) {
    tokio::select! {
        words = health::watch(&settings, &silent_ends, &connection, |_| {}) => {
            silent_ends.record();
            tracing::warn!(words, "the connection of one session is ended");
            connection.mark_lost(&words);
            connection.close(std::time::Duration::ZERO).await;
        }
        _ = connection.over().wait() => {}
    }
}
