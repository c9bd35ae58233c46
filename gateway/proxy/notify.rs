//! What legacy sessions are told outside of calls: lists and resources that changed, logs. Each by
//! what its owner sees at that moment; a session whose owner's key is good no more is told nothing,
//! and ends.

mod task_news;

use std::collections::HashMap;
use std::sync::Arc;

use lockgate_policy::Kind;
use lockgate_protocol::jsonrpc::Request;
use lockgate_upstream::{Announcement, ClientSession, ListKind, Subscription};

use crate::catalog::View;
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
    for announcement in announced.iter().filter(|announcement| is_meant(announcement.session)) {
        for kind in &announcement.lists {
            if !lists.contains(kind) && view.lists_of(&announcement.slug, *kind) {
                lists.push(*kind);
            }
        }
    }
    lists
}

impl Gateway {
    /// Tells sessions of lists that look different to them now, and ends those whose owner's key is
    /// good no more.
    pub(crate) fn notify_list_changes(&self, snapshot: &Snapshot, announced: &[Announcement]) {
        let mut views = HashMap::new();
        for session in self.sessions.all() {
            let Some(principal) = session.renew(|owner| snapshot.authenticator.current(owner))
            else {
                self.end_session(&session);
                continue;
            };
            let rights = CallerRights::new(&snapshot.policy, principal, &session.endpoint);
            let key = (session.endpoint.clone(), rights.class.mark());
            let (view, lists): &(Option<Arc<View>>, _) = views.entry(key).or_insert_with(|| {
                let view = self.directory.view(&session.endpoint, snapshot, &rights);
                let lists = announced_lists(view.as_deref(), announced, |to| to.is_none());
                (view, lists)
            });
            let mut lists: Vec<ListKind> = lists.clone();
            let own = Some(session.key());
            lists.extend(announced_lists(view.as_deref(), announced, |to| to == own));
            session.notify_changes(view.as_deref(), &lists);
            if session.has_subscriptions() {
                self.end_hidden_subscriptions(&session, view.as_deref());
            }
        }
    }

    /// What the owner of a session sees now; nothing when the owner's key is good no more.
    fn view_of(&self, session: &Session, snapshot: &Snapshot) -> Option<Arc<View>> {
        let principal = snapshot.authenticator.current(&session.principal())?;
        self.directory.view(
            &session.endpoint,
            snapshot,
            &CallerRights::new(&snapshot.policy, principal, &session.endpoint),
        )
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
        let there =
            |shown: &str| view.is_some_and(|view| view.resource(shown, Kind::Resource).is_some());
        for at in session.retain_subscriptions(there) {
            let servers = self.directory.servers();
            if let Some(server) = servers.into_iter().find(|server| server.slug() == at.slug) {
                at.give_back(server);
            }
        }
    }

    /// Tells sessions what a server logged to nobody in particular, as long as it can only be about
    /// their own principal.
    pub(crate) fn notify_log_message(&self, slug: &str, note: &Request) {
        let snapshot = self.snapshot();
        for session in
            self.sessions.all().iter().filter(|s| self.single_principal.is(s.principal().key()))
        {
            let view = self.view_of(session, &snapshot);
            if view.is_some_and(|view| view.servers.keys().any(|s| s.as_str() == slug)) {
                ClientSession::log(&**session, slug, note);
            }
        }
    }

    /// Tells sessions of a resource that they subscribed to on a connection, unless policy hides it
    /// by now.
    pub(crate) fn tell_updated(&self, slug: &str, uri: &str, on: Subscription) {
        let snapshot = self.snapshot();
        for session in self.sessions.all() {
            if session.subscribed(slug, uri, on) {
                let view = self.view_of(&session, &snapshot);
                legacy::tell_updated(&session, view.as_deref(), slug, uri);
            }
        }
    }
}
