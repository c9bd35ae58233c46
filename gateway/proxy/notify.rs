//! Notifications to legacy sessions outside of calls: list changes, resource updates and logs. Each
//! is filtered by the current view of the session's owner. Sessions of owners without a valid key
//! are ended.

mod task_news;

use std::collections::HashMap;
use std::sync::Arc;

use lockgate_policy::TargetKind;
use lockgate_protocol::jsonrpc::Request;
use lockgate_upstream::{Announcement, ClientSession, ListKind, ServerId, Subscription, Upstream};

use crate::catalog::View;
use crate::directory::{Seeing, Source};
use crate::gateway::Gateway;
use crate::legacy;
use crate::rights::CallerRights;
use crate::session::Session;
use crate::snapshot::Snapshot;

/// Returns the lists of a view that servers announced as changed, to the sessions selected by
/// `is_meant` (`None` means all sessions). An announcement is ignored if the view shows none of
/// that server's items in the list.
pub(crate) fn announced_lists(
    view: Option<&View>,
    announced: &[Announcement],
    is_meant: impl Fn(Option<u64>) -> bool,
) -> Vec<ListKind> {
    let mut lists = Vec::new();
    let Some(view) = view else { return lists };
    for announcement in announced {
        if !is_meant(announcement.session) {
            continue;
        }
        for kind in &announcement.lists {
            if !lists.contains(kind) && view.lists_of(&announcement.server, *kind) {
                lists.push(*kind);
            }
        }
    }
    lists
}

/// The view of a class of callers at an endpoint, and the pending notifications.
struct SeenView {
    view: Option<Arc<View>>,
    lists: Vec<ListKind>,
    hidden: Vec<Arc<dyn Upstream>>,
}

impl Gateway {
    /// Notifies sessions that can see servers of `source` of list changes, and ends the sessions of
    /// owners without a valid key.
    pub(crate) fn notify_list_changes(
        &self,
        source: &Source,
        snapshot: &Snapshot,
        announced: &[Announcement],
    ) {
        let mut views = HashMap::new();
        for session in self.sessions.of(source.as_deref()) {
            // The newest keys: `snapshot` is that of a merge, which may have taken seconds, and the
            // session's key may have been created meanwhile.
            let keys = Arc::clone(&self.snapshot().authenticator);
            let Some(principal) = session.renew(|owner| keys.current(owner)) else {
                self.end_session(&session);
                continue;
            };
            let rights = CallerRights::new(&snapshot.policy, principal, &session.endpoint);
            let organisation: Box<str> = rights.principal.organisation().into();
            let is_own = session.endpoint.is_of_agent() || self.directory.has_private_lists();
            let alone = is_own.then(|| rights.principal.clone());
            let key = (organisation, session.endpoint.clone(), alone, rights.class.mark());
            let seen: &SeenView = views.entry(key).or_insert_with(|| {
                let view = self.view(&session.endpoint, snapshot, &rights);
                let lists = announced_lists(view.as_deref(), announced, |to| to.is_none());
                let hidden = self.find_hidden_servers(source, view.as_deref());
                SeenView { view, lists, hidden }
            });
            let own_clients = session.own_clients();
            let view = if own_clients.is_empty() {
                seen.view.clone()
            } else {
                self.view_with(
                    &own_clients,
                    Seeing { endpoint: &session.endpoint, snapshot, rights: &rights },
                )
            };
            let mut lists: Vec<ListKind> = seen.lists.clone();
            let own = Some(session.key());
            lists.extend(announced_lists(view.as_deref(), announced, |to| to == own));
            session.notify_changes(view.as_deref(), &lists);
            if session.has_subscriptions() {
                self.end_hidden_subscriptions(&session, view.as_deref());
            }
            // On its own connection, a hidden server could go on asking the client questions.
            for server in &seen.hidden {
                server.forget_session(session.key());
            }
        }
    }

    /// Returns the servers of a source that are not in a view.
    fn find_hidden_servers(&self, source: &Source, view: Option<&View>) -> Vec<Arc<dyn Upstream>> {
        let mut servers = match source {
            None => self.directory.servers(),
            Some(organisation) => self.directory.servers_of(organisation),
        };
        if let Some(view) = view {
            servers.retain(|server| view.server(&ServerId::of(&**server)).is_none());
        }
        servers
    }

    /// Returns the current view of a session's owner, or `None` if the owner's key is no longer
    /// valid.
    fn view_of(&self, session: &Session, snapshot: &Snapshot) -> Option<Arc<View>> {
        let principal = snapshot.authenticator.current(&session.principal())?;
        let rights = CallerRights::new(&snapshot.policy, principal, &session.endpoint);
        self.view_of_session(session, snapshot, &rights)
    }

    /// Ends a session's subscriptions to resources that its owner may no longer read. Called before
    /// notifications about them are sent.
    pub(crate) fn end_subscriptions(&self, session: &Session, snapshot: &Snapshot) {
        if session.has_subscriptions() {
            self.end_hidden_subscriptions(session, self.view_of(session, snapshot).as_deref());
        }
    }

    fn end_hidden_subscriptions(&self, session: &Session, view: Option<&View>) {
        let ended = session.retain_subscriptions(|shown| match view {
            Some(view) => view.resource(shown, TargetKind::Resource).is_some(),
            None => false,
        });
        for at in ended {
            if let Some(server) = self.directory.find_server(&at.server) {
                at.give_back(server);
            }
        }
    }

    /// Forwards a server's log message without a request to sessions, only if a single principal
    /// uses the server: otherwise the message may concern another caller.
    pub(crate) fn notify_log_message(&self, server: &ServerId, note: &Request) {
        let snapshot = self.snapshot();
        let own = server.organisation.as_ref().and_then(|name| self.directory.organisation(name));
        let callers = own.as_ref().map_or(&self.single_principal, |own| &own.single_principal);
        for session in self.sessions.of(server.organisation.as_deref()) {
            if callers.is(session.principal().key())
                && let Some(view) = self.view_of(&session, &snapshot)
                && view.server(server).is_some()
            {
                ClientSession::log(&*session, server, note);
            }
        }
    }

    /// Notifies sessions that subscribed to a resource on a connection, unless policy hides the
    /// resource by now.
    pub(crate) fn tell_updated(&self, server: &ServerId, uri: &str, on: Subscription) {
        let snapshot = self.snapshot();
        for session in self.sessions.of(server.organisation.as_deref()) {
            if session.subscribed(server, uri, on) {
                let view = self.view_of(&session, &snapshot);
                let view = view.filter(|view| view.server(server).is_some());
                legacy::tell_updated(&session, view.as_deref(), server, uri);
            }
        }
    }
}
