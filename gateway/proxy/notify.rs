//! Notifications to legacy sessions outside of calls: list changes, resource updates, logs, and the
//! status of tasks that a client follows, which is read on its behalf. Each is filtered by the
//! current view of the session's owner. Sessions of owners without a valid key are ended.
//! Page: basic/utilities/tasks.mdx (2025-11-25).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use lockgate_admission::spawn;
use lockgate_policy::TargetKind;
use lockgate_protocol::jsonrpc::{self, Message, Outcome, Request, Response, SentBy};
use lockgate_protocol::method::Method;
use lockgate_protocol::write::{self, Object};
use lockgate_upstream::{Announcement, ClientSession, ListKind, ServerId, Subscription, Upstream};
use serde_json::json;

use crate::caller_view::make_request;
use crate::catalog::View;
use crate::context::RequestContext;
use crate::directory::{Seeing, Source};
use crate::gateway::Gateway;
use crate::rights::CallerRights;
use crate::session::Session;
use crate::snapshot::Snapshot;
use crate::transport::Transport;
use crate::{dispatch, legacy};

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

/// Minimum pause between two reads of a task.
const MIN_READ_INTERVAL: Duration = Duration::from_millis(100);

impl Gateway {
    /// Sends the current status of a task to the sessions that follow it.
    pub(crate) fn notify_task(self: &Arc<Self>, server: &ServerId, own: &str) {
        for session in self.sessions.of(server.organisation.as_deref()) {
            let Some(token) = session.begin_task_read(server, own) else { continue };
            let gateway = Arc::clone(self);
            spawn(async move {
                loop {
                    gateway.tell_task_status(&session, &token).await;
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
        let Some(task) = read(self, context).await else { return };
        let Some(log) = session.log(0) else { return };
        let mut params = Vec::new();
        let mut object = Object::open(&mut params);
        write(&mut object, &task);
        object.close();
        log.push(write::notification(Method::TaskStatus.as_str(), &params).into());
    }

    /// Builds a request for a task of a session under the current rules.
    fn task_context(&self, session: &Arc<Session>, token: &str) -> Option<Box<RequestContext>> {
        let snapshot = self.snapshot();
        let principal = snapshot.authenticator.current(&session.principal())?;
        let rights = CallerRights::new(&snapshot.policy, principal.clone(), &session.endpoint);
        Some(Box::new(RequestContext {
            view: self.view_of_session(session, &snapshot, &rights)?,
            endpoint: session.endpoint.clone(),
            transport: Transport::Mcp,
            rights,
            caller: session.caller(snapshot.assertion(&principal)),
            principal,
            request: task_request(token)?,
            revision: session.revision,
            session: Some(Arc::clone(session)),
            trace: None,
            operation: None,
            running: None,
            takes_streamed_body: false,
            snapshot,
        }))
    }
}

/// Builds the request for a task by its client's id.
pub(crate) fn task_request(token: &str) -> Option<Request> {
    make_request(Method::TasksGet, &json!({"taskId": token}))
}

pub(crate) async fn read(gateway: &Gateway, context: Box<RequestContext>) -> Option<Response> {
    let depth = context.snapshot.config.limits.depth;
    let text = dispatch::forward_nested(gateway, context).await.ok()?.into_bytes();
    match jsonrpc::parse(text, depth, SentBy::Server) {
        Ok(Message::Response(response)) => Some(response),
        _ => None,
    }
}

/// Writes the response as the parameters of a notification.
pub(crate) fn write(params: &mut Object<'_>, task: &Response) {
    let Outcome::Result(_, members) = &task.outcome else { return };
    for member in members {
        if !matches!(&*member.name(&task.text), "resultType" | "_meta") {
            params.copy(member.key.of(&task.text), member.value.of(&task.text));
        }
    }
}
