//! The client edge for sessions: the table of sessions of a gateway, their lookup and resumption,
//! and their end.

use std::sync::Arc;

use http::StatusCode;
use lockgate_protocol::code;
use lockgate_protocol::jsonrpc::Response;
use lockgate_proxy::Gateway;
use lockgate_proxy::peers::name_session_holder;
use lockgate_proxy::rescue::RequestError;
use lockgate_proxy::server_operation::{self, ServerOperation};
use lockgate_proxy::snapshot::Snapshot;
use lockgate_proxy::transport::{Exchange, Reply, SESSION, header};
use lockgate_upstream::{ClientSession, Subscription};
use serde_json::json;

use crate::session::portable::{self, Opening};
use crate::session::{Session, Sessions};

/// A gateway with the sessions of its legacy clients.
pub struct Edge {
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) sessions: Sessions,
}

impl Edge {
    /// Creates the edge of a gateway. From now on, the gateway passes it the changes that sessions
    /// are notified of.
    pub fn new(gateway: Arc<Gateway>) -> Arc<Self> {
        let sessions = Sessions::new(Arc::clone(gateway.budget()));
        let edge = Arc::new(Self { gateway, sessions });
        let weak = Arc::downgrade(&edge);
        edge.gateway.set_session_edge(weak);
        edge
    }

    /// Returns the gateway.
    pub fn gateway(&self) -> &Arc<Gateway> {
        &self.gateway
    }

    /// Returns the session that an exchange names.
    pub(crate) fn session_of(&self, exchange: &Exchange) -> Option<Arc<Session>> {
        let id = header(&exchange.headers, &SESSION)?;
        if let Some(known) = self.sessions.find(id, &exchange.principal, &exchange.endpoint) {
            return Some(known);
        }
        self.resume(id, exchange)
    }

    /// Returns the parameters in the id of a session of this caller that was opened elsewhere and
    /// has not ended.
    pub(crate) fn open_portable(
        &self,
        snapshot: &Snapshot,
        id: &str,
        exchange: &Exchange,
    ) -> Option<Opening> {
        if snapshot.config.secret.is_none() || !self.sessions.may_go_on(id) {
            return None;
        }
        portable::open(&snapshot.sealer, &exchange.principal, &exchange.endpoint, id)
    }

    /// Resumes a session opened by another process, or by this gateway before a restart.
    #[cold]
    fn resume(&self, id: &str, exchange: &Exchange) -> Option<Arc<Session>> {
        let snapshot = self.gateway.snapshot();
        let Exchange { principal, endpoint, .. } = exchange;
        let opening = self.open_portable(&snapshot, id, exchange)?;
        let rights = snapshot.rights_of(principal.clone(), endpoint);
        let view = self.gateway.view(&[], &snapshot, &rights)?;
        let owner = (principal.clone(), endpoint.clone());
        let limits = &snapshot.config.limits;
        let opened = self.sessions.open(owner, opening, Some(id.into()), limits, &view);
        let session = opened.ok()?;
        session.distrust_lists();
        self.name_holder(&session, &snapshot);
        tracing::info!("session of another gateway resumed");
        self.sessions.find(&session.id, principal, endpoint)
    }

    /// Makes a session's questions name this gateway, if there are others.
    pub(crate) fn name_holder(&self, session: &Session, snapshot: &Snapshot) {
        if let Some(address) = self.gateway.own_address()
            && let Some(holder) = name_session_holder(
                &snapshot.sealer,
                &session.principal(),
                &session.endpoint,
                &session.id,
                address,
            )
        {
            let _ = session.holder.set(holder);
        }
    }

    /// Ends a session and releases its resources.
    pub(crate) fn end_session(&self, session: &Session) {
        if self.sessions.remove(session) {
            self.gateway.measure_session(session.revision, session.began.elapsed());
        }
        let held = session.take_subscriptions();
        for server in self.gateway.directory.servers_for(session.principal().organisation()) {
            server.forget_session(session.key());
            for at in &held {
                // Subscriptions on the session's own connection end with it.
                let ends = matches!(at.given, None | Some(Subscription::Session(_)));
                if at.server.names(&*server) && !ends {
                    at.clone().give_back(Arc::clone(&server));
                }
            }
        }
    }

    /// Passes a client's response on to the server that asked. A response without a pending
    /// question is an error.
    pub(crate) fn take_answer(
        &self,
        session: &Session,
        exchange: &Exchange,
        response: &Response,
    ) -> Reply {
        match session.answer(response) {
            Ok(()) => Reply::accepted(),
            Err(words) => {
                let problem =
                    RequestError::new(code::INVALID_REQUEST, words).status(StatusCode::BAD_REQUEST);
                self.gateway.refuse(&problem, exchange, None)
            }
        }
    }

    /// Rejects a message without a valid session. Only the audit trail records whether the session
    /// belongs to another caller.
    pub(crate) fn refuse_unknown_session(
        &self,
        exchange: &Exchange,
        id: Option<&[u8]>,
        operation: Option<&ServerOperation>,
    ) -> Reply {
        let named = header(&exchange.headers, &SESSION);
        let words = match named {
            None => "no session is named",
            Some(named) if self.sessions.exists(named) => {
                "the session belongs to another caller or endpoint"
            }
            Some(_) => "no such session",
        };
        self.gateway.record_refused_session(words, exchange);
        let problem = match named {
            Some(_) => {
                RequestError::new(code::INVALID_REQUEST, "no such session: send `initialize` again")
                    .status(StatusCode::NOT_FOUND)
            }
            None => {
                let words = "no session: send `initialize` first, or use protocol version \
                    2026-07-28 with `_meta` in every request";
                RequestError::new(code::INVALID_REQUEST, words)
                    .status(StatusCode::BAD_REQUEST)
                    .data(json!({"code": code::NOT_INITIALIZED}))
            }
        };
        server_operation::refuse(operation, &problem);
        problem.reply(id)
    }
}
