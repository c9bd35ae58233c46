//! The view of a client with its own connection at a server, if that connection lists other items
//! than the shared one: a legacy session's, or that of a modern client's lanes.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use lockgate_authn::Principal;
use lockgate_protocol::jsonrpc::Request;
use lockgate_protocol::key::Key;
use lockgate_protocol::method::Method;
use lockgate_upstream::ServerId;

use crate::caller_view::identity_of;
use crate::catalog::View;
use crate::context::RequestContext;
use crate::directory::Seeing;
use crate::gateway::Gateway;
use crate::own_lists::{OwnClient, OwnClients, OwnDelta};
use crate::rights::CallerRights;
use crate::session::Session;
use crate::snapshot::Snapshot;
use crate::transport::Endpoint;

impl Gateway {
    /// Returns the clients of a modern caller that declared these capabilities.
    pub(crate) fn find_own_clients(&self, principal: &Principal, declared: &Bytes) -> OwnClients {
        if self.modern_clients.has_own_lists() {
            self.modern_clients.own_clients(&(principal.clone(), declared.clone()))
        } else {
            OwnClients::new()
        }
    }

    /// Returns the clients behind a request.
    pub(crate) fn own_clients_of(&self, context: &RequestContext) -> OwnClients {
        match &context.session {
            Some(session) => session.own_clients(),
            None if context.caller.interactive => {
                self.find_own_clients(&context.principal, &context.caller.capabilities)
            }
            None => OwnClients::new(),
        }
    }

    /// Returns the view of a caller without connections of its own.
    pub(crate) fn view(
        &self,
        endpoint: &Endpoint,
        snapshot: &Snapshot,
        rights: &CallerRights,
    ) -> Option<Arc<View>> {
        self.view_with(&OwnClients::new(), Seeing { endpoint, snapshot, rights })
    }

    /// Returns the view of a caller, including the lists of its own connections and accounts.
    pub(crate) fn view_with(&self, own: &OwnClients, seeing: Seeing<'_>) -> Option<Arc<View>> {
        let Seeing { endpoint, snapshot, rights } = seeing;
        let has_private = self.directory.has_private_lists();
        if own.is_empty() && !has_private {
            return self.directory.view(endpoint, snapshot, rights);
        }
        let mut deltas = Vec::new();
        if has_private {
            self.add_private_lists(&rights.principal, &mut deltas);
        }
        for client in own {
            let OwnClient { servers, is_first } = client;
            servers.collect(*is_first, |id| self.directory.find_merged(id), &mut deltas);
        }
        self.directory.view_with(&deltas, seeing, &self.metrics)
    }

    fn add_private_lists(&self, caller: &Principal, deltas: &mut Vec<OwnDelta>) {
        for server in self.directory.private_servers() {
            if let Some(lists) = server.private_lists(identity_of(caller))
                && !lists.is_empty()
            {
                deltas.push(OwnDelta { server: ServerId::of(&*server), lists, is_first: true });
            }
        }
    }

    /// Waits for the lists of the caller's accounts. Free once those lists have been read.
    pub(crate) async fn settle_private_lists(&self, caller: &Principal, deadline: Duration) {
        let servers = self.directory.private_servers();
        let caller = identity_of(caller);
        let waits = servers.iter().map(|server| server.wait_for_private_lists(caller));
        let all = futures_util::future::join_all(waits);
        let _ = tokio::time::timeout(deadline, all).await;
    }

    pub(crate) fn view_of_session(
        &self,
        session: &Session,
        snapshot: &Snapshot,
        rights: &CallerRights,
    ) -> Option<Arc<View>> {
        let seeing = Seeing { endpoint: &session.endpoint, snapshot, rights };
        self.view_with(&session.own_clients(), seeing)
    }

    /// Waits until recently announced changes of the lists that a request uses have been read, so
    /// that items added by a call can be listed and called at once.
    pub(crate) async fn settle_own_lists(
        &self,
        own: &OwnClients,
        request: &Request,
        seeing: Seeing<'_>,
    ) {
        let is_settled = match request.method {
            Method::ToolsList
            | Method::PromptsList
            | Method::ResourcesList
            | Method::TemplatesList => false,
            Method::ToolsCall | Method::PromptsGet => self.has_name(own, request, seeing),
            _ => true,
        };
        if is_settled {
            return;
        }
        let mut servers = Vec::new();
        for client in own {
            for id in client.servers.get() {
                let key = client.servers.key();
                servers.extend(self.directory.find_merged(&id).map(|found| (found, key)));
            }
        }
        let waits = servers.iter().map(|(server, key)| server.wait_for_own_lists(*key));
        let deadline = seeing.snapshot.config.limits.discovery_deadline;
        let all = futures_util::future::join_all(waits);
        let _ = tokio::time::timeout(deadline, all).await;
    }

    /// Returns whether the view has the tool or prompt of a request.
    fn has_name(&self, own: &OwnClients, request: &Request, seeing: Seeing<'_>) -> bool {
        let Some(view) = self.view_with(own, seeing) else { return true };
        let Some(name) = request.param_str(Key::Name) else { return true };
        let seen = match request.method {
            Method::ToolsCall => view.tool(&name),
            _ => view.prompt(&name),
        };
        seen.is_some()
    }
}
