//! Connections that belong to one legacy client session each, for legacy servers that keep state or
//! ask questions.

use std::sync::Arc;

use lockgate_protocol::revision::Era;

use crate::call::{Call, Caller, ClientSession};
use crate::config;
use crate::connection::Connection;
use crate::failure::{Failure, Kind};
use crate::health;
use crate::health::SilentEnds;
use crate::open::{Role, follow_session, open};
use crate::session_connections::MAX_SESSIONS;
use crate::shared::Shared;

impl Shared {
    /// The connection for what a caller asks: the session's own where the server's configuration
    /// and era ask for one.
    pub(super) async fn connection_for(&self, caller: &Caller) -> Result<Arc<Connection>, Failure> {
        let shared = self.shared_connection().await?;
        let Some(session) = caller.session.as_ref().filter(|_| shared.era() == Era::Legacy) else {
            return Ok(shared);
        };
        let own = self.asks(&shared)
            && (caller.interactive || self.config.sessions == config::Sessions::Client);
        if !own {
            return Ok(shared);
        }
        Box::pin(self.own_connection(session, caller)).await
    }

    async fn own_connection(
        &self,
        session: &Arc<dyn ClientSession>,
        caller: &Caller,
    ) -> Result<Arc<Connection>, Failure> {
        let Some(slot) = self.sessions.slot(session.key()) else {
            let words =
                format!("{MAX_SESSIONS} client sessions have a connection of their own already");
            return Err(Failure::new(Kind::Overloaded, words));
        };
        let connection =
            slot.get_or_try_init(|| self.open_for(session, &caller.capabilities)).await?;
        if connection.is_open() {
            return Ok(Arc::clone(connection));
        }
        self.sessions.forget(session.key());
        Err(Failure::new(
            Kind::Lost,
            "the server's connection for this session has ended; the next call opens a new one",
        ))
    }

    async fn open_for(
        &self,
        session: &Arc<dyn ClientSession>,
        capabilities: &[u8],
    ) -> Result<Arc<Connection>, Failure> {
        let capabilities = serde_json::from_slice(capabilities).unwrap_or_default();
        let role = Role::Session(session.key(), Arc::downgrade(session), capabilities);
        let (connection, _) = open(self, role)
            .await
            .map_err(|refused| Failure::new(Kind::Unavailable, refused.trouble.to_string()))?;
        let connection = Arc::new(connection);
        follow_session(&connection).await;
        self.renew_subscriptions(&connection, session.key()).await;
        let health = self.config.health.clone();
        let silent_ends = Arc::clone(&self.silent_ends);
        tokio::spawn(watch(health, silent_ends, Arc::clone(&connection)));
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
            self.sessions.remove(session.key());
            lost.mark_lost("the server has forgotten the session");
        }
    }
}

/// Ends a session's connection that hangs; its next call opens another one.
async fn watch(
    health: Option<config::Health>,
    silent_ends: Arc<SilentEnds>,
    connection: Arc<Connection>,
) {
    tokio::select! {
        words = health::watch(health.as_ref(), &silent_ends, &connection, |_| {}) => {
            silent_ends.record();
            tracing::warn!(words, "the connection of one session is ended");
            connection.mark_lost(&words);
            connection.close(std::time::Duration::ZERO).await;
        }
        _ = connection.over().wait() => {}
    }
}
