//! Tasks (tasks extension) and resources that a listen follows. When a server announces a change of
//! a task, the task is read on behalf of the caller. Each resource is authorized like a separate
//! subscription, and unsubscribed when the listen drops it.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use lockgate_admission::spawn;
use lockgate_authn::Principal;
use lockgate_protocol::jsonrpc::Response;
use lockgate_protocol::method::Method;
use lockgate_telemetry::Outcome;
use lockgate_upstream::{BoxFuture, Caller, ServerId, Subscription, Topic, Upstream};
use serde_json::{Map, Value};
use tokio::sync::oneshot;

use crate::authorize::{Task, authorize, find_task, require_tasks};
use crate::caller_view::Forward;
use crate::catalog::template::Steps;
use crate::context::{RequestContext, about, identity_of};
use crate::dispatch::{audit_allow, audit_denial};
use crate::gateway::{Gateway, MAX_SUBSCRIBING};
use crate::rescue::RequestError;

/// The read of a task; `None` if it fails.
pub(super) type TaskRead = BoxFuture<'static, Option<Response>>;

#[derive(Default)]
pub(super) struct Tasks {
    all: Vec<Followed>,
    /// The caller, if any task is followed.
    caller: Option<(Principal, Caller)>,
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
        filter: &Map<String, Value>,
    ) -> Result<Self, RequestError> {
        let Some(ids) = filter.get("taskIds") else { return Ok(Self::default()) };
        require_tasks(context)?;
        let ids = ids.as_array().map_or(&[][..], Vec::as_slice);
        if ids.len() > context.snapshot.config.limits.subscriptions {
            return Err(RequestError::invalid(
                "too many tasks in one listen (limits.subscriptions)",
            ));
        }
        let mut tasks = Self::default();
        for id in ids {
            if let Some(token) = id.as_str() {
                tasks.all.extend(Followed::find(context, token));
            }
        }
        tasks.caller = Some((context.principal.clone(), context.caller.clone()));
        Ok(tasks)
    }

    /// Subscribes to the tasks at their servers and returns the ids of the granted ones.
    pub(super) async fn grant(&mut self) -> Vec<String> {
        let Some((principal, caller)) = &self.caller else { return Vec::new() };
        let asking = self.all.iter_mut().map(|task| task.ask(principal, caller));
        futures_util::future::join_all(asking).await;
        self.all.retain(|task| task.held.is_some());
        self.all.iter().map(|task| task.token.clone()).collect()
    }

    pub(super) fn read_changed(
        &mut self,
        server: &ServerId,
        own: &str,
        read: impl Fn(&str) -> Option<TaskRead>,
    ) {
        let at = self.all.iter().position(|task| server.names(&*task.server) && task.own == own);
        if let Some(at) = at {
            self.read(at, &read);
        }
    }

    /// Reads every task, because changes were lost.
    pub(super) fn read_all(&mut self, read: impl Fn(&str) -> Option<TaskRead>) {
        for at in 0..self.all.len() {
            self.read(at, &read);
        }
    }

    fn read(&mut self, at: usize, read: &impl Fn(&str) -> Option<TaskRead>) {
        let Some(task) = self.all.get_mut(at) else { return };
        if task.reading {
            task.again = true;
            return;
        }
        let Some(reading) = read(&task.token) else { return };
        (task.reading, task.again) = (true, false);
        self.reading.push(Box::pin(async move { (at, reading.await) }));
    }

    /// Returns the next task that has been read, and stays pending while no read is in progress.
    /// Cancel safe.
    pub(super) async fn next(
        &mut self,
        read: impl Fn(&str) -> Option<TaskRead>,
    ) -> Option<Response> {
        let Some((at, found)) = self.reading.next().await else {
            return std::future::pending().await;
        };
        if let Some(task) = self.all.get_mut(at) {
            task.reading = false;
            if task.again {
                self.read(at, &read);
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
        gateway.record_caller(&context.principal, &**permitted.server());
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
        forward: Forward,
    ) -> Option<Self> {
        if let Some(read) = self.read.take() {
            let read = tokio::time::timeout(READ_TIMEOUT, forward(gateway, read));
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
