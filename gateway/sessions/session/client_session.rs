//! A session as seen by its requests, and by servers: log messages outside of calls, and questions
//! to its client.

use std::sync::Arc;

use bytes::Bytes;
use lockgate_protocol::jsonrpc::Request;
use lockgate_protocol::method::Method;
use lockgate_protocol::question;
use lockgate_protocol::revision::Era;
use lockgate_upstream::{
    BoxFuture, Caller, ClientSession, IdentityAssertion, QuestionError, ServerId,
};

use super::{Session, SessionTask};
use lockgate_proxy::Gateway;
use lockgate_proxy::catalog::View;
use lockgate_proxy::context::LegacySession;
use lockgate_proxy::own_lists::{OwnClient, OwnClients};
use lockgate_proxy::pace::write_log_message;
use lockgate_proxy::rights::CallerRights;
use lockgate_proxy::snapshot::{Seeing, Snapshot};

impl Session {
    /// Returns the client's description for servers, with its identity assertion.
    pub(crate) fn caller(&self, assertion: Option<Arc<dyn IdentityAssertion>>) -> Caller {
        Caller {
            id: self.principal.read().caller_id(),
            assertion,
            capabilities: self.capabilities.clone(),
            interactive: self.interactive,
            log_level: self.level(),
            session: self.this.upgrade().map(|s| s as Arc<dyn ClientSession>),
            era: Era::Legacy,
        }
    }

    /// Returns the view of the client under these rules.
    pub(crate) fn view(
        &self,
        gateway: &Gateway,
        snapshot: &Snapshot,
        rights: &CallerRights,
    ) -> Option<Arc<View>> {
        let seeing = Seeing { endpoint: &self.endpoint, snapshot, rights };
        gateway.view_with(&self.own_clients(), seeing)
    }
}

impl LegacySession for Session {
    fn own_clients(&self) -> OwnClients {
        if self.own_servers.is_any() {
            vec![OwnClient { servers: Arc::clone(&self.own_servers), is_first: true }]
        } else {
            OwnClients::new()
        }
    }

    fn defers_loading(&self) -> bool {
        self.defers_loading
    }

    fn remember_task(&self, token: &str, server: ServerId, own: &str) {
        self.add_task(SessionTask::new(token.to_owned(), server, own));
    }
}

impl ClientSession for Session {
    fn key(&self) -> u64 {
        self.key
    }

    fn tells_roots_changes(&self) -> bool {
        self.roots_changes
    }

    fn note_own_lists(&self, server: &ServerId) {
        self.own_servers.note(server);
    }

    fn complete_elicitation(&self, server: &ServerId, id: &str) {
        self.tell_elicitation_complete(&server.slug, id);
    }

    fn log(&self, server: &ServerId, note: &Request) {
        if let Some(log) = self.log(0)
            && let Some(text) =
                write_log_message(&server.slug, note, self.wanted_level(), &log.pace)
        {
            log.push(text.into());
        }
    }

    fn ask<'a>(
        &'a self,
        server: &'a ServerId,
        method: Method,
        params: Bytes,
    ) -> BoxFuture<'a, Result<Bytes, QuestionError>> {
        Box::pin(async move {
            let Some(log) = self.log(0) else { return Err(QuestionError::Gone) };
            let slug = &*server.slug;
            let label = if self.endpoint.is_namespaced() { Some(slug) } else { None };
            let params = question::label(label, method, &params);
            self.question(&log, slug, method, &params, None).await
        })
    }
}
