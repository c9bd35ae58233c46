//! What legacy sessions are told outside of calls: lists and resources that changed, logs. Each by
//! what its owner sees at that moment; a session whose owner's key is good no more is told nothing,
//! and ends.

mod task_news;

use std::collections::HashMap;
use std::sync::Arc;

use lockgate_policy::Kind;
use lockgate_protocol::jsonrpc::Request;
use lockgate_upstream::{Announcement, ClientSession, ListKind, ServerId, Subscription, Upstream};

use crate::catalog::View;
use crate::directory::{Seeing, Source};
use crate::gateway::Gateway;
use crate::legacy;
use crate::rights::CallerRights;
use crate::session::Session;
use crate::snapshot::Snapshot;

/// The lists of a view that servers said have changed, to the sessions that are meant (`None`:
/// everybody). A server of which the view shows nothing in a list has nothing to say of it.
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

/// What callers of one class see at one endpoint, and what is to be said of it.
struct Seen {
    view: Option<Arc<View>>,
    lists: Vec<ListKind>,
    hidden: Vec<Arc<dyn Upstream>>,
}

impl Gateway {
    /// Tells sessions that see servers of a source of lists that look different to them now, and
    /// ends those whose owner's key is good no more.
    pub(crate) fn notify_list_changes(
        &self,
        source: &Source,
        snapshot: &Snapshot,
        announced: &[Announcement],
    ) {
        let mut views = HashMap::new();
        for session in self.sessions.of(source.as_deref()) {
            let Some(principal) = session.renew(|owner| snapshot.authenticator.current(owner))
            else {
                self.end_session(&session);
                continue;
            };
            let rights = CallerRights::new(&snapshot.policy, principal, &session.endpoint);
            let organisation: Box<str> = rights.principal.organisation().into();
            let agent = match session.endpoint.is_of_agent() {
                true => Some(rights.principal.clone()),
                false => None,
            };
            let key = (organisation, session.endpoint.clone(), agent, rights.class.mark());
            let seen: &Seen = views.entry(key).or_insert_with(|| {
                let view = self.directory.view(&session.endpoint, snapshot, &rights);
                let lists = announced_lists(view.as_deref(), announced, |to| to.is_none());
                let hidden = self.find_hidden_servers(source, view.as_deref());
                Seen { view, lists, hidden }
            });
            let own_clients = session.own_clients();
            let view = match own_clients.is_empty() {
                true => seen.view.clone(),
                false => self.view_with(
                    &own_clients,
                    Seeing { endpoint: &session.endpoint, snapshot, rights: &rights },
                ),
            };
            let mut lists: Vec<ListKind> = seen.lists.clone();
            let own = Some(session.key());
            lists.extend(announced_lists(view.as_deref(), announced, |to| to == own));
            session.notify_changes(view.as_deref(), &lists);
            if session.has_subscriptions() {
                self.end_hidden_subscriptions(&session, view.as_deref());
            }
            // On a connection of its own a server could go on asking its client things.
            for server in &seen.hidden {
                server.forget_session(session.key());
            }
        }
    }

    /// The servers of a source that are not in a view.
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

    /// What the owner of a session sees now; nothing when the owner's key is good no more.
    fn view_of(&self, session: &Session, snapshot: &Snapshot) -> Option<Arc<View>> {
        let principal = snapshot.authenticator.current(&session.principal())?;
        let rights = CallerRights::new(&snapshot.policy, principal, &session.endpoint);
        self.view_of_session(session, snapshot, &rights)
    }

    /// Ends the subscriptions of a session to what its caller may not read any more, before
    /// something is told of them.
    pub(crate) fn end_subscriptions(&self, session: &Session, snapshot: &Snapshot) {
        if session.has_subscriptions() {
            self.end_hidden_subscriptions(session, self.view_of(session, snapshot).as_deref());
        }
    }

    /// The same where it is known what the caller sees.
    fn end_hidden_subscriptions(&self, session: &Session, view: Option<&View>) {
        let ended = session.retain_subscriptions(|shown| match view {
            Some(view) => view.resource(shown, Kind::Resource).is_some(),
            None => false,
        });
        for at in ended {
            if let Some(server) = self.directory.find_server(&at.server) {
                at.give_back(server);
            }
        }
    }

    /// Tells sessions what a server logged to nobody in particular, as long as it can only be about
    /// their own principal.
    pub(crate) fn notify_log_message(&self, server: &ServerId, note: &Request) {
        let snapshot = self.snapshot();
        let own = match &server.organisation {
            Some(name) => self.directory.organisation(name),
            None => None,
        };
        let callers = match &own {
            Some(own) => &own.single_principal,
            None => &self.single_principal,
        };
        for session in self.sessions.of(server.organisation.as_deref()) {
            if callers.is(session.principal().key())
                && let Some(view) = self.view_of(&session, &snapshot)
                && view.server(server).is_some()
            {
                ClientSession::log(&*session, server, note);
            }
        }
    }

    /// Tells sessions of a resource that they subscribed to on a connection, unless policy hides it
    /// by now.
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
