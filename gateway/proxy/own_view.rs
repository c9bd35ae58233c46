//! The view of a caller. It differs from the shared view of the caller's class if an account of the
//! caller, or a client's own connection at a server, lists other items than the shared connection.
//! Such connections are those of legacy sessions and of modern clients' lanes.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use lockgate_authn::Principal;
use lockgate_protocol::jsonrpc::Request;
use lockgate_protocol::key::Key;
use lockgate_protocol::method::Method;
use lockgate_upstream::ServerId;

use crate::catalog::{Catalog, Layers, Merger, View, ViewLayer};
use crate::context::{RequestContext, identity_of};
use crate::directory::{About, make_viewing, select};
use crate::flagged_tools::log_new_flagged_tools;
use crate::gateway::Gateway;
use crate::inspect::Inspector;
use crate::own_lists::{OwnClient, OwnClients, OwnDelta};
use crate::rights::CallerRights;
use crate::snapshot::Snapshot;

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
                self.find_own_clients(&context.rights.principal, &context.caller.capabilities)
            }
            None => OwnClients::new(),
        }
    }

    /// Returns a caller's view at an endpoint, including the lists of its own connections and
    /// accounts, or `None` if the endpoint does not exist for it.
    pub fn view(
        &self,
        own: &[OwnClient],
        snapshot: &Snapshot,
        rights: &CallerRights,
    ) -> Option<Arc<View>> {
        let CallerRights { principal, endpoint, .. } = rights;
        if !endpoint.is_open_to(principal) {
            return None;
        }
        let deltas = self.collect_deltas(own, principal);
        let shared = &*self.directory.shared.state.load().catalog;
        // Members of an organisation without servers share the views of the operator's.
        let organisation = self.directory.organisation(principal.organisation());
        let state = organisation.as_ref().map(|organisation| organisation.state());
        let state = state
            .as_deref()
            .filter(|state| endpoint.is_of_agent() || !state.catalog.servers.is_empty());
        let selection = select(endpoint, state, snapshot, principal)?;
        let number = state.map(|state| state.number);
        let mut of = number.map_or(ViewLayer::Shared, ViewLayer::Own);
        let mut mark = rights.class.mark();
        if !deltas.is_empty() {
            of = ViewLayer::OfClient(number);
            // Callers of a class with the same differences share the view.
            mark = compute_mark(mark, number, &deltas);
        }
        if let Some(known) = shared.views.get(of, endpoint, mark) {
            return Some(known);
        }
        let layers = Layers { shared, own: state.map(|state| &*state.catalog) };
        let viewing = make_viewing(selection, snapshot, rights);
        // Unknown endpoints are not cached: clients could make up any number of them.
        let view = if deltas.is_empty() {
            layers.view(selection, viewing)?
        } else {
            let shared = self.apply(&deltas, shared, snapshot);
            let own = layers.own.map(|own| self.apply(&deltas, own, snapshot));
            Layers { shared: &shared, own: own.as_ref() }.view(selection, viewing)?
        };
        let kept = shared.views.keep(
            of,
            || match (&organisation, number) {
                (Some(organisation), Some(number)) => organisation.state().number == number,
                _ => true,
            },
            (endpoint, mark),
            view,
        );
        Some(kept)
    }

    /// Returns how the lists of the caller's accounts and own connections differ from the shared
    /// lists.
    fn collect_deltas(&self, own: &[OwnClient], caller: &Principal) -> Vec<OwnDelta> {
        let mut deltas = Vec::new();
        if self.directory.has_private_lists() {
            self.add_private_lists(caller, &mut deltas);
        }
        for client in own {
            let OwnClient { servers, is_first } = client;
            servers.collect(*is_first, |id| self.directory.find_merged(id), &mut deltas);
        }
        deltas
    }

    fn apply(&self, deltas: &[OwnDelta], catalog: &Catalog, snapshot: &Snapshot) -> Catalog {
        let pins = &snapshot.config.pins;
        let inspector = Inspector::new(pins);
        let merger = Merger { naming: snapshot.naming, metrics: &self.metrics, inspector };
        let changed = catalog.with_own(deltas, &merger);
        log_new_flagged_tools(catalog, &changed, pins);
        changed
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

    /// Waits for the servers that a request may concern, and for the lists of the caller's
    /// accounts. Free once all are known.
    pub async fn settle_for<'a>(
        &self,
        caller: &Principal,
        about: impl FnOnce() -> About<'a>,
        deadline: Duration,
    ) {
        self.directory.settle(caller.organisation(), about, deadline).await;
        if self.directory.has_private_lists() {
            // Boxed because it is rare, to keep the future of a request small.
            Box::pin(self.settle_private_lists(caller, deadline)).await;
        }
    }

    async fn settle_private_lists(&self, caller: &Principal, deadline: Duration) {
        let servers = self.directory.private_servers();
        let caller = identity_of(caller);
        let waits = servers.iter().map(|server| server.wait_for_private_lists(caller));
        let all = futures_util::future::join_all(waits);
        let _ = tokio::time::timeout(deadline, all).await;
    }

    /// Waits until recently announced changes of the lists that a request uses have been read, so
    /// that items added by a call can be listed and called at once.
    pub async fn settle_own_lists(
        &self,
        own: &OwnClients,
        request: &Request,
        snapshot: &Snapshot,
        rights: &CallerRights,
    ) {
        let is_settled = match request.method {
            Method::ToolsList
            | Method::PromptsList
            | Method::ResourcesList
            | Method::TemplatesList => false,
            Method::ToolsCall | Method::PromptsGet => {
                let view = self.view(own, snapshot, rights);
                let name = request.param_str(Key::Name);
                view.zip(name)
                    .is_none_or(|(view, name)| view.named(request.method, &name).is_some())
            }
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
        let deadline = snapshot.config.limits.discovery_deadline;
        let all = futures_util::future::join_all(waits);
        let _ = tokio::time::timeout(deadline, all).await;
    }
}

/// Computes the cache key of a class of callers with these lists.
fn compute_mark(class: [u8; 16], organisation: Option<u64>, deltas: &[OwnDelta]) -> [u8; 16] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&class).update(&organisation.map_or(u64::MAX, |own| own).to_le_bytes());
    for delta in deltas {
        let server = delta.server.to_string();
        hasher.update(&(server.len() as u64).to_le_bytes()).update(server.as_bytes());
        hasher.update(&delta.lists.mark).update(&[u8::from(delta.is_first)]);
    }
    let mut mark = [0; 16];
    hasher.finalize_xof().fill(&mut mark);
    mark
}
