//! `subscriptions/listen`: a stream that first acknowledges the granted subscriptions, then sends
//! notifications of changes visible to the caller, each tagged with the request id of the listen.
//! Page: basic/patterns/subscriptions.mdx (2026-07-28).

mod tasks;

use std::array::from_fn;
use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::join_all;
use lockgate_policy::{HeldPermit, TargetKind};
use lockgate_protocol::key::Key;
use lockgate_protocol::meta;
use lockgate_protocol::method::Method;
use lockgate_protocol::write::{self, Object};
use lockgate_text::json;
use lockgate_upstream::{Announcement, Caller, ListKind, ResourceUpdate};
use serde_json::{Map, Value, json};
use tokio::sync::broadcast::error::RecvError;

use crate::caller_view::write_task;
use crate::catalog::entry::{CHANGES, ListMarks, index_of_change};
use crate::catalog::template::Steps;
use crate::catalog::{Audience, View};
use crate::context::RequestContext;
use crate::directory::{Change, ChangeReceiver, covers_resource};
use crate::dispatch::{audit_denial, audit_listen};
use crate::gateway::Gateway;
use crate::listen::tasks::{Listening, Tasks, Watched};
use crate::modern_clients::{LaneError, ListeningLane};
use crate::quota::OpenStream;
use crate::rescue::RequestError;
use crate::transport::{Outgoing, Reply, Text};

/// Concurrent subscribe requests of a listen.
const MAX_CONCURRENT_SUBSCRIBES: usize = 16;
/// The members of a filter for lists.
const LISTS: [&str; 3] = ["toolsListChanged", "promptsListChanged", "resourcesListChanged"];

struct Listener {
    client: Arc<Listening>,
    /// Permits of the concurrency limits for open streams.
    _held: Vec<HeldPermit>,
    /// The listen's request id as JSON text.
    id: Bytes,
    lists: [bool; 3],
    resources: Vec<Watched>,
    /// Resources to subscribe to first.
    wanted: Option<Vec<Watched>>,
    tasks: Tasks,
    /// Keeps connections for notifications that servers send to this client alone. `None` unless
    /// the client accepts questions.
    lane: Option<ListeningLane>,
    /// Marks of the lists last announced to the client. Keeping the view instead would let a client
    /// that does not read pin its memory.
    lists_notified: ListMarks,
    changes: ChangeReceiver,
    ready: VecDeque<Bytes>,
    is_over: bool,
    info: Arc<[u8]>,
    _open: OpenStream,
}

/// Opens the stream.
pub(crate) fn open_stream(gateway: &Arc<Gateway>, context: &RequestContext) -> Reply {
    match listener(gateway, context) {
        Err(problem) => {
            audit_denial(gateway, context, &problem);
            context.refuse(&problem)
        }
        Ok(listener) => {
            let events = futures_util::stream::unfold(listener, |mut listener| async move {
                let data = listener.next().await?;
                Some((Outgoing::from(Text::from(data)), listener))
            });
            Reply::events(Box::pin(events))
        }
    }
}

fn listener(gateway: &Arc<Gateway>, context: &RequestContext) -> Result<Listener, RequestError> {
    let limits = &context.snapshot.config.limits;
    let Some(filter) = read_filter(context) else {
        return Err(RequestError::invalid("`params.notifications` must be an object"));
    };
    if context.request.param(Key::TaskIds).is_some() {
        crate::authorize::require_tasks(context)?;
    }
    let client = Arc::new(Listening {
        gateway: Arc::clone(gateway),
        rights: context.rights.clone(),
        caller: context.caller.clone(),
        revision: context.revision,
    });
    let tasks = Tasks::wanted(context, &client, &filter)?;
    let uris = filter.get("resourceSubscriptions").and_then(Value::as_array);
    let uris = uris.map_or(&[][..], Vec::as_slice);
    if uris.len() > limits.subscriptions {
        return Err(RequestError::invalid(
            "too many resources in one listen (limits.subscriptions)",
        ));
    }
    let held = crate::authorize::admit(&context.snapshot, &context.rights, Method::Listen)?;
    let open = gateway.stream(&context.rights.principal).map_err(RequestError::too_many_streams)?;
    let lane = find_lane(gateway, context).map_err(RequestError::no_lane)?;
    audit_listen(gateway, context)?;
    let wanted = authorize_resources(gateway, context, uris);
    let offers = &context.view.offers;
    let offered = [offers.tools, offers.prompts, offers.resources];
    Ok(Listener {
        client,
        _held: held,
        id: context.request.id_bytes(),
        lists: from_fn(|at| offered[at] && filter.get(LISTS[at]) == Some(&Value::Bool(true))),
        resources: Vec::new(),
        wanted: Some(wanted),
        tasks,
        lane,
        lists_notified: context.view.marks(Audience::Everybody),
        changes: gateway.directory.changes.subscribe(context.rights.principal.organisation()),
        ready: VecDeque::new(),
        is_over: false,
        info: Arc::clone(&context.snapshot.info),
        _open: open,
    })
}

fn read_filter(context: &RequestContext) -> Option<Map<String, Value>> {
    json::from_slice(context.request.param(Key::Notifications)?).ok()
}

/// Authorizes the requested resources. Denied and nonexistent resources are both omitted from the
/// acknowledgement.
fn authorize_resources(
    gateway: &Gateway,
    context: &RequestContext,
    uris: &[Value],
) -> Vec<Watched> {
    let mut steps = Steps::of_request();
    let shown = uris.iter().filter_map(Value::as_str);
    shown.filter_map(|shown| Watched::authorize(gateway, context, shown, &mut steps)).collect()
}

/// Returns the lane for the calls of a client that accepts questions.
fn find_lane(
    gateway: &Gateway,
    context: &RequestContext,
) -> Result<Option<ListeningLane>, LaneError> {
    if !context.caller.interactive {
        return Ok(None);
    }
    let declared = (context.rights.principal.clone(), context.caller.capabilities.clone());
    let most = context.snapshot.config.limits.sessions;
    gateway.modern_clients.listen(declared, most).map(Some)
}

impl Listener {
    async fn next(&mut self) -> Option<Bytes> {
        if let Some(wanted) = self.wanted.take() {
            self.grant(wanted).await;
        }
        while self.ready.is_empty() && !self.is_over {
            tokio::select! {
                change = self.changes.recv() => match change {
                    Ok(Change::Catalog(announced)) => self.compare_lists(&announced),
                    Ok(Change::Updated(update)) => self.notify_updated(&update),
                    Ok(Change::Task { server, id }) => self.tasks.read_changed(&server, &id),
                    Err(RecvError::Lagged(_)) => self.notify_everything(),
                    Err(RecvError::Closed) => self.finish(),
                },
                task = self.tasks.next() => if let Some(task) = task {
                    self.push_notification(Method::TaskUpdated, |params| {
                        write_task(params, &task);
                    });
                },
                () = self.client.gateway.stopping.cancelled() => self.finish(),
            }
        }
        self.ready.pop_front()
    }

    /// Subscribes at the servers, then acknowledges the granted subscriptions.
    async fn grant(&mut self, wanted: Vec<Watched>) {
        let Listening { gateway, rights, caller, .. } = &*self.client;
        let session = self.lane.as_ref().map(ListeningLane::session);
        let caller = Caller { session, ..caller.clone() };
        let mut wanted = wanted.into_iter();
        while wanted.len() > 0 {
            let next = wanted.by_ref().take(MAX_CONCURRENT_SUBSCRIBES);
            let asking = next.map(|one| one.subscribe(gateway, &rights.principal, &caller));
            for subscribed in join_all(asking).await {
                self.resources.extend(subscribed);
            }
        }
        let mut filter = Map::new();
        for (on, name) in self.lists.iter().zip(LISTS) {
            if *on {
                filter.insert(name.into(), true.into());
            }
        }
        if !self.resources.is_empty() {
            let shown = self.resources.iter().map(|watched| watched.shown.as_str());
            filter.insert("resourceSubscriptions".into(), shown.collect());
        }
        let tasks = self.tasks.grant().await;
        if !tasks.is_empty() {
            filter.insert("taskIds".into(), tasks.into());
        }
        let filter = Value::Object(filter).to_string();
        self.push_notification(Method::Acknowledged, |params| {
            params.raw("notifications", filter.as_bytes())
        });
    }

    /// Sends notifications for lists that changed for this caller, and for lists that servers
    /// announced.
    fn compare_lists(&mut self, announced: &[Announcement]) {
        let after = self.client.current_view();
        let lists =
            after.as_ref().map_or_else(ListMarks::none, |view| view.marks(Audience::Everybody));
        let before = std::mem::replace(&mut self.lists_notified, lists);
        let lane = self.lane.as_ref();
        let announced =
            View::announced_lists(after.as_deref(), announced, |session| match session {
                None => true,
                Some(key) => matches!(lane, Some(lane) if lane.covers(key)),
            });
        for kind in before.changes(lists, &announced) {
            self.notify_list_changed(kind);
        }
        match after {
            Some(after) => {
                // No notifications for resources that the caller may no longer read.
                self.resources.retain(|watched| {
                    after.resource(&watched.shown, TargetKind::Resource).is_some()
                });
            }
            None => self.finish(),
        }
    }

    fn notify_list_changed(&mut self, kind: ListKind) {
        let at = index_of_change(kind);
        if self.lists[at] {
            self.push_notification(CHANGES[at], |_| {});
        }
    }

    fn notify_updated(&mut self, update: &ResourceUpdate) {
        let mine = self.resources.iter().find(|watched| {
            update.server.names(&*watched.server)
                && watched.stands_on(update.on)
                && covers_resource(&watched.own, &update.uri)
        });
        let Some(watched) = mine else { return };
        // Check the current rules, for a sub-resource too, which is reported under its own URI.
        let Some(view) = self.client.current_view() else { return };
        let is_same = *watched.own == *update.uri;
        let shown = if is_same { Some(&*watched.shown) } else { None };
        if let Some(shown) = view.find_updated(update, shown).map(Cow::into_owned) {
            self.push_notification(Method::ResourceUpdated, |params| params.string("uri", &shown));
        }
    }

    /// Notifies of every list, resource and task, because some changes were lost.
    fn notify_everything(&mut self) {
        self.compare_lists(&[]);
        if self.is_over {
            return;
        }
        for kind in [ListKind::Tools, ListKind::Prompts, ListKind::Resources] {
            self.notify_list_changed(kind);
        }
        let resources = std::mem::take(&mut self.resources);
        for watched in &resources {
            self.push_notification(Method::ResourceUpdated, |params| {
                params.string("uri", &watched.shown);
            });
        }
        self.resources = resources;
        self.tasks.read_all();
    }

    fn push_notification(&mut self, method: Method, write: impl FnOnce(&mut Object<'_>)) {
        let mut params = Vec::with_capacity(128);
        let mut object = Object::open(&mut params);
        write(&mut object);
        let mut inner = Object::open(object.key("_meta"));
        inner.raw(meta::SUBSCRIPTION_ID, &self.id);
        inner.close();
        object.close();
        self.ready.push_back(write::notification(method.as_str(), &params).into());
    }

    /// Queues the final result, after which the stream ends.
    fn finish(&mut self) {
        let info = json::from_slice(&self.info).unwrap_or(Value::Null);
        let id = json::from_slice(&self.id).unwrap_or(Value::Null);
        let meta = json!({meta::SUBSCRIPTION_ID: id, meta::SERVER_INFO: info});
        let result = json!({"resultType": "complete", "_meta": meta});
        self.ready.push_back(write::result(&self.id, result.to_string().as_bytes()).into());
        self.is_over = true;
    }
}
