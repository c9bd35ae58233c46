//! Notifications to legacy sessions outside of calls: list changes, resource updates, logs, and the
//! status of tasks that a client follows, which is read on its behalf. Each is filtered by the
//! current view of the session's owner. Sessions of owners without a valid key are ended.
//! Page: basic/utilities/tasks.mdx (2025-11-25).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use lockgate_admission::spawn;
use lockgate_policy::TargetKind;
use lockgate_protocol::jsonrpc::Request;
use lockgate_protocol::method::Method;
use lockgate_protocol::write::{self, Object};
use lockgate_proxy::SessionEdge;
use lockgate_proxy::caller_view::{read_task, write_task};
use lockgate_proxy::catalog::View;
use lockgate_proxy::context::{LegacySession, RequestContext};
use lockgate_proxy::directory::{Change, Source};
use lockgate_proxy::snapshot::Snapshot;
use lockgate_upstream::{
    Announcement, ClientSession, ListKind, ResourceUpdate, ServerId, Upstream,
};
use serde_json::json;

use crate::edge::Edge;
use crate::session::Session;

/// Minimum pause between two reads of a task.
const MIN_READ_INTERVAL: Duration = Duration::from_millis(100);

/// The view of a class of callers at an endpoint, and the pending notifications.
struct SeenView {
    view: Option<Arc<View>>,
    lists: Vec<ListKind>,
    hidden: Vec<Arc<dyn Upstream>>,
}

impl SessionEdge for Edge {
    fn notify(self: Arc<Self>, source: &Source, change: &Change, snapshot: &Snapshot) {
        match change {
            Change::Catalog(announced) => self.notify_list_changes(source, snapshot, announced),
            Change::Updated(update) => self.notify_updated(snapshot, update),
            Change::Task { server, id } => self.notify_task(server, id),
        }
    }

    fn log(&self, server: &ServerId, note: &Request) {
        let snapshot = self.gateway.snapshot();
        for session in self.sessions.of(server.organisation.as_deref()) {
            // With several callers, the message may concern another.
            if self.gateway.is_only_caller(session.principal().key(), server)
                && let Some(view) = self.view_of(&session, &snapshot)
                && view.server(server).is_some()
            {
                ClientSession::log(&*session, server, note);
            }
        }
    }

    fn sweep(&self, idle: Duration) {
        for session in self.sessions.find_expired(idle) {
            self.end_session(&session);
        }
        // The expiry of a key triggers no event, so every session is checked.
        let snapshot = self.gateway.snapshot();
        for session in self.sessions.all() {
            if snapshot.authenticator.current(&session.principal()).is_none() {
                self.end_session(&session);
            }
        }
    }

    fn count(&self, organisation: Option<&str>) -> usize {
        match organisation {
            None => self.sessions.len(),
            Some(_) => self.sessions.of(organisation).len(),
        }
    }
}

impl Edge {
    /// Notifies sessions that can see servers of `source` of list changes, and ends the sessions of
    /// owners without a valid key.
    fn notify_list_changes(
        &self,
        source: &Source,
        snapshot: &Snapshot,
        announced: &[Announcement],
    ) {
        let mut views = HashMap::new();
        for session in self.sessions.of(source.as_deref()) {
            // The newest keys: `snapshot` is that of a merge, which may have taken seconds, and the
            // session's key may have been created meanwhile.
            let keys = Arc::clone(&self.gateway.snapshot().authenticator);
            let Some(principal) = session.renew(|owner| keys.current(owner)) else {
                self.end_session(&session);
                continue;
            };
            let rights = snapshot.rights_of(principal, &session.endpoint);
            let organisation: Box<str> = rights.principal.organisation().into();
            let is_own =
                session.endpoint.is_of_agent() || self.gateway.directory.has_private_lists();
            let alone = is_own.then(|| rights.principal.clone());
            let key = (organisation, session.endpoint.clone(), alone, rights.class.mark());
            let seen: &SeenView = views.entry(key).or_insert_with(|| {
                let view = self.gateway.view(&[], snapshot, &rights);
                let lists = View::announced_lists(view.as_deref(), announced, |to| to.is_none());
                let hidden = self.find_hidden_servers(source, view.as_deref());
                SeenView { view, lists, hidden }
            });
            let own_clients = session.own_clients();
            let view = if own_clients.is_empty() {
                seen.view.clone()
            } else {
                self.gateway.view(&own_clients, snapshot, &rights)
            };
            let mut lists: Vec<ListKind> = seen.lists.clone();
            let own = Some(session.key());
            lists.extend(View::announced_lists(view.as_deref(), announced, |to| to == own));
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
        let mut servers = self.gateway.directory.servers_of(source.as_deref());
        if let Some(view) = view {
            servers.retain(|server| view.server(&ServerId::of(&**server)).is_none());
        }
        servers
    }

    /// Returns the current view of a session's owner, or `None` if the owner's key is no longer
    /// valid.
    fn view_of(&self, session: &Session, snapshot: &Snapshot) -> Option<Arc<View>> {
        let rights = snapshot.current_rights(&session.principal(), &session.endpoint)?;
        session.view(&self.gateway, snapshot, &rights)
    }

    /// Ends a session's subscriptions to resources that its owner may no longer read. Called before
    /// notifications about them are sent.
    pub(crate) fn end_subscriptions(&self, session: &Session, snapshot: &Snapshot) {
        if session.has_subscriptions() {
            self.end_hidden_subscriptions(session, self.view_of(session, snapshot).as_deref());
        }
    }

    fn end_hidden_subscriptions(&self, session: &Session, view: Option<&View>) {
        let ended = session.retain_subscriptions(|shown| {
            view.is_some_and(|view| view.resource(shown, TargetKind::Resource).is_some())
        });
        for at in ended {
            if let Some(server) = self.gateway.directory.find_server(&at.server) {
                at.give_back(server);
            }
        }
    }

    /// Notifies sessions that subscribed to a resource on a connection, unless policy hides the
    /// resource by now.
    fn notify_updated(&self, snapshot: &Snapshot, update: &ResourceUpdate) {
        for session in self.sessions.of(update.server.organisation.as_deref()) {
            if session.subscribed(update)
                && let Some(view) = self.view_of(&session, snapshot)
                && view.server(&update.server).is_some()
                && let Some(shown) = view.find_updated(update, None)
            {
                let params = json!({"uri": shown}).to_string();
                let note = write::notification(Method::ResourceUpdated.as_str(), params.as_bytes());
                session.outside().push(note.into());
            }
        }
    }

    /// Sends the current status of a task to the sessions that follow it.
    fn notify_task(self: &Arc<Self>, server: &ServerId, own: &str) {
        for session in self.sessions.of(server.organisation.as_deref()) {
            let Some(token) = session.begin_task_read(server, own) else { continue };
            let edge = Arc::clone(self);
            spawn(async move {
                loop {
                    edge.tell_task_status(&session, &token).await;
                    tokio::time::sleep(MIN_READ_INTERVAL).await;
                    if session.over.is_cancelled() || !session.end_task_read(&token) {
                        return;
                    }
                }
            });
        }
    }

    async fn tell_task_status(&self, session: &Arc<Session>, token: &str) {
        let Some(context) = self.task_context(session, token) else { return };
        let Some(task) = read_task(&self.gateway, context).await else { return };
        let mut params = Vec::new();
        let mut object = Object::open(&mut params);
        write_task(&mut object, &task);
        object.close();
        session.outside().push(write::notification(Method::TaskStatus.as_str(), &params).into());
    }

    /// Builds a request for a task of a session under the current rules.
    fn task_context(&self, session: &Arc<Session>, token: &str) -> Option<Box<RequestContext>> {
        let snapshot = self.gateway.snapshot();
        let rights = snapshot.current_rights(&session.principal(), &session.endpoint)?;
        let caller = session.caller(snapshot.assertion(&rights.principal));
        let view = session.view(&self.gateway, &snapshot, &rights)?;
        let own: Arc<dyn LegacySession> = session.clone();
        let client = (session.revision, caller, Some(own));
        RequestContext::of_task(token, (snapshot, view, rights), client)
    }
}
