//! The client of a listen, and the tasks (tasks extension) and resources that it follows. When a
//! server announces a change of a task, the task is read on behalf of the client. Each resource is
//! authorized like a separate subscription, and unsubscribed when the listen drops it.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::join_all;
use futures_util::stream::FuturesUnordered;
use lockgate_admission::spawn;
use lockgate_authn::Principal;
use lockgate_protocol::jsonrpc::Response;
use lockgate_protocol::method::Method;
use lockgate_protocol::revision::Revision;
use lockgate_telemetry::Outcome;
use lockgate_upstream::{BoxFuture, Caller, ServerId, Subscription, Topic, Upstream};
use serde_json::{Map, Value};
use tokio::sync::oneshot;

use crate::authorize::{Task, authorize, find_task, require_tasks};
use crate::caller_view::read_task;
use crate::catalog::View;
use crate::catalog::template::Steps;
use crate::context::{RequestContext, about, identity_of};
use crate::dispatch::{audit_allow, audit_denial};
use crate::gateway::{Gateway, MAX_SUBSCRIBING};
use crate::own_lists::OwnClients;
use crate::rescue::RequestError;
use crate::rights::CallerRights;
use crate::snapshot::Snapshot;

/// The client that listens.
pub(super) struct Listening {
    pub(super) gateway: Arc<Gateway>,
    pub(super) rights: CallerRights,
    pub(super) caller: Caller,
    pub(super) revision: Revision,
}

impl Listening {
    /// Returns the current rules, the caller's rights and its view, or `None` if its key is no
    /// longer valid.
    fn see(&self) -> Option<(Arc<Snapshot>, Arc<View>, CallerRights)> {
        let snapshot = self.gateway.snapshot();
        let CallerRights { principal, endpoint, .. } = &self.rights;
        let rights = snapshot.current_rights(principal, endpoint)?;
        let own = if self.caller.interactive {
            self.gateway.find_own_clients(principal, &self.caller.capabilities)
        } else {
            OwnClients::new()
        };
        let view = self.gateway.view(&own, &snapshot, &rights)?;
        Some((snapshot, view, rights))
    }

    /// Returns the caller's current view, or `None` if the caller's key is no longer valid.
    pub(super) fn current_view(&self) -> Option<Arc<View>> {
        self.see().map(|(_, view, _)| view)
    }

    /// Reads one of the caller's tasks under the current rules.
    fn read_task(&self, token: &str) -> Option<TaskRead> {
        let client = (self.revision, self.caller.clone(), None);
        let context = RequestContext::of_task(token, self.see()?, client)?;
        let gateway = Arc::clone(&self.gateway);
        Some(Box::pin(async move { read_task(&gateway, context).await }))
    }
}

/// The read of a task; `None` if it fails.
type TaskRead = BoxFuture<'static, Option<Response>>;

pub(super) struct Tasks {
    client: Arc<Listening>,
    all: Vec<Followed>,
    reading: FuturesUnordered<BoxFuture<'static, (usize, Option<Response>)>>,
}

struct Followed {
    server: Arc<dyn Upstream>,
    own: String,
    /// The task id that was given to the caller.
    token: String,
    /// The server's subscription, once confirmed.
    held: Option<HeldSubscription>,
    /// A read is in progress; `again` records a change during that read.
    reading: bool,
    again: bool,
}

impl Tasks {
    /// Returns the tasks that a listen requests. Tasks of other callers are omitted, like tasks
    /// that do not exist.
    pub(super) fn wanted(
        context: &RequestContext,
        client: &Arc<Listening>,
        filter: &Map<String, Value>,
    ) -> Result<Self, RequestError> {
        let client = Arc::clone(client);
        let mut tasks = Self { client, all: Vec::new(), reading: FuturesUnordered::new() };
        let Some(ids) = filter.get("taskIds") else { return Ok(tasks) };
        require_tasks(context)?;
        let ids = ids.as_array().map_or(&[][..], Vec::as_slice);
        if ids.len() > context.snapshot.config.limits.subscriptions {
            return Err(RequestError::invalid(
                "too many tasks in one listen (limits.subscriptions)",
            ));
        }
        for id in ids {
            if let Some(token) = id.as_str() {
                tasks.all.extend(Followed::find(context, token));
            }
        }
        Ok(tasks)
    }

    /// Subscribes to the tasks at their servers and returns the ids of the granted ones.
    pub(super) async fn grant(&mut self) -> Vec<String> {
        let Listening { rights, caller, .. } = &*self.client;
        join_all(self.all.iter_mut().map(|task| task.ask(&rights.principal, caller))).await;
        self.all.retain(|task| task.held.is_some());
        self.all.iter().map(|task| task.token.clone()).collect()
    }

    pub(super) fn read_changed(&mut self, server: &ServerId, own: &str) {
        let at = self.all.iter().position(|task| server.names(&*task.server) && task.own == own);
        if let Some(at) = at {
            self.read(at);
        }
    }

    /// Reads every task, because changes were lost.
    pub(super) fn read_all(&mut self) {
        for at in 0..self.all.len() {
            self.read(at);
        }
    }

    fn read(&mut self, at: usize) {
        let Some(task) = self.all.get_mut(at) else { return };
        if task.reading {
            task.again = true;
            return;
        }
        let Some(reading) = self.client.read_task(&task.token) else { return };
        (task.reading, task.again) = (true, false);
        self.reading.push(Box::pin(async move { (at, reading.await) }));
    }

    /// Returns the next task that has been read, and stays pending while no read is in progress.
    /// Cancel safe.
    pub(super) async fn next(&mut self) -> Option<Response> {
        let Some((at, found)) = self.reading.next().await else {
            return std::future::pending().await;
        };
        if let Some(task) = self.all.get_mut(at) {
            task.reading = false;
            if task.again {
                self.read(at);
            }
        }
        found
    }
}

impl Followed {
    fn find(context: &RequestContext, token: &str) -> Option<Self> {
        let Task { server, own, .. } = find_task(context, token)?;
        Some(Self {
            server,
            own,
            token: token.to_owned(),
            held: None,
            reading: false,
            again: false,
        })
    }

    /// Asks the server to announce changes of the task.
    async fn ask(&mut self, principal: &Principal, caller: &Caller) {
        let topic = Topic::Task(self.own.clone());
        self.held = subscribe(&self.server, topic, principal, caller).await;
    }
}

/// Timeout for the read that proves that a resource exists.
const READ_TIMEOUT: Duration = Duration::from_secs(3);

pub(super) struct Watched {
    pub(super) server: Arc<dyn Upstream>,
    pub(super) own: String,
    /// The URI that the client uses.
    pub(super) shown: String,
    /// The read that must prove that the resource exists, unless that is already certain.
    read: Option<Box<RequestContext>>,
    /// The server's subscription, once confirmed.
    held: Option<HeldSubscription>,
}

/// A subscription at a server that is cancelled on drop.
struct HeldSubscription {
    server: Arc<dyn Upstream>,
    topic: Topic,
    given: Subscription,
}

/// Subscribes at the server. Returns `None` if the server rejects the subscription.
async fn subscribe(
    server: &Arc<dyn Upstream>,
    topic: Topic,
    principal: &Principal,
    caller: &Caller,
) -> Option<HeldSubscription> {
    let given = server.subscribe(&topic, caller, identity_of(principal)).await.ok()?;
    Some(HeldSubscription { server: Arc::clone(server), topic, given })
}

impl Watched {
    /// Authorizes a resource and records the decision like that of a separate subscription.
    pub(super) fn authorize(
        gateway: &Gateway,
        context: &RequestContext,
        shown: &str,
        steps: &mut Steps,
    ) -> Option<Self> {
        let one = about(context, Method::Subscribe, shown)?;
        let permitted = match authorize(&one) {
            Ok(permitted) => permitted,
            Err(problem) => {
                audit_denial(gateway, &one, &problem);
                return None;
            }
        };
        // `steps` bounds the template matching of all resources together. A resource beyond that
        // bound is read instead.
        let described = context.view.describes_within(shown, steps)
            || context.hides_nothing_of(&**permitted.server());
        let mut read = None;
        if !described {
            read = Some(Box::new(about(context, Method::ResourcesRead, shown)?));
        }
        let ticket = audit_allow(gateway, &one, &permitted, None).ok()?;
        if let Some(ticket) = ticket {
            ticket.finish(Outcome::Ok, Duration::ZERO);
        }
        gateway.record_caller(&context.rights.principal, &**permitted.server());
        Some(Self {
            server: Arc::clone(permitted.server()),
            own: permitted.target().to_owned(),
            shown: shown.to_owned(),
            read,
            held: None,
        })
    }

    /// Subscribes at the server. Returns `None` if the resource does not exist or the server
    /// rejects the subscription.
    pub(super) async fn subscribe(
        mut self,
        gateway: &Gateway,
        principal: &Principal,
        caller: &Caller,
    ) -> Option<Self> {
        if let Some(read) = self.read.take() {
            let read = tokio::time::timeout(READ_TIMEOUT, gateway.forward(read));
            read.await.ok()?.ok()?;
        }
        // Bounds the subscribe requests of a principal in flight, including those of disconnected
        // clients, however often the client reconnects.
        let share = gateway.subscribing.take(principal, MAX_SUBSCRIBING)?;
        let (sender, receiver) = oneshot::channel();
        let server = Arc::clone(&self.server);
        let topic = Topic::Resource(self.own.clone());
        let caller = caller.clone();
        let principal = principal.clone();
        // In a separate task: if the client disconnects first, a confirmed subscription must still
        // be cancelled.
        spawn(async move {
            let _share = share;
            if let Some(held) = subscribe(&server, topic, &principal, &caller).await {
                let _ = sender.send(held);
            }
        });
        self.held = Some(receiver.await.ok()?);
        Some(self)
    }

    /// Returns whether the subscription is on this connection.
    pub(super) fn stands_on(&self, on: Subscription) -> bool {
        matches!(&self.held, Some(held) if held.given == on)
    }
}

impl Drop for HeldSubscription {
    fn drop(&mut self) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let server = Arc::clone(&self.server);
        let topic = self.topic.clone();
        let given = self.given;
        runtime.spawn(async move { server.unsubscribe(&topic, given).await });
    }
}
