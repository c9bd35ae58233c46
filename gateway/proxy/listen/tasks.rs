//! Tasks that a listen follows (tasks extension). When a server announces a change, the task is
//! read on behalf of the caller.

use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use lockgate_authn::Principal;
use lockgate_protocol::jsonrpc::Response;
use lockgate_upstream::{BoxFuture, ServerId, Upstream};
use serde_json::{Map, Value};

use crate::authorize::{Task, find_task, require_tasks};
use crate::caller_view::identity_of;
use crate::context::RequestContext;
use crate::gateway::Gateway;
use crate::rescue::RequestError;
use crate::task_status;

#[derive(Default)]
pub(super) struct Tasks {
    all: Vec<Followed>,
    /// The caller, if any task is followed.
    principal: Option<Principal>,
    reading: FuturesUnordered<BoxFuture<'static, (usize, Option<Response>)>>,
}

struct Followed {
    server: Arc<dyn Upstream>,
    own: String,
    /// The task id that was given to the caller.
    token: String,
    granted: bool,
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
        let ids = match ids {
            Value::Array(ids) => ids.as_slice(),
            _ => &[],
        };
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
        tasks.principal = Some(context.principal.clone());
        Ok(tasks)
    }

    /// Subscribes to the tasks at their servers and returns the ids of the granted ones.
    pub(super) async fn grant(&mut self) -> Vec<String> {
        let Some(principal) = &self.principal else { return Vec::new() };
        let asking: Vec<_> = self.all.iter_mut().map(|task| task.ask(principal)).collect();
        futures_util::future::join_all(asking).await;
        self.all.retain(|task| task.granted);
        self.all.iter().map(|task| task.token.clone()).collect()
    }

    pub(super) fn read_changed(
        &mut self,
        server: &ServerId,
        own: &str,
        read: impl Fn(&str) -> Option<(Arc<Gateway>, Box<RequestContext>)>,
    ) {
        let at = self.all.iter().position(|task| server.names(&*task.server) && task.own == own);
        if let Some(at) = at {
            self.read(at, &read);
        }
    }

    /// Reads every task, because changes were lost.
    pub(super) fn read_all(
        &mut self,
        read: impl Fn(&str) -> Option<(Arc<Gateway>, Box<RequestContext>)>,
    ) {
        for at in 0..self.all.len() {
            self.read(at, &read);
        }
    }

    fn read(
        &mut self,
        at: usize,
        read: &impl Fn(&str) -> Option<(Arc<Gateway>, Box<RequestContext>)>,
    ) {
        let Some(task) = self.all.get_mut(at) else { return };
        if task.reading {
            task.again = true;
            return;
        }
        let Some((gateway, context)) = read(&task.token) else { return };
        (task.reading, task.again) = (true, false);
        self.reading
            .push(Box::pin(async move { (at, task_status::read(&gateway, context).await) }));
    }

    /// Returns the next task that has been read, and stays pending while no read is in progress.
    /// Cancel safe.
    pub(super) async fn next(
        &mut self,
        read: impl Fn(&str) -> Option<(Arc<Gateway>, Box<RequestContext>)>,
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
            granted: false,
            reading: false,
            again: false,
        })
    }

    /// Asks the server to announce changes of the task.
    async fn ask(&mut self, principal: &Principal) {
        let identity = identity_of(principal);
        self.granted = self.server.watch_task(&self.own, identity).await.is_ok();
    }
}

impl Drop for Tasks {
    fn drop(&mut self) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let Some(principal) = self.principal.take() else { return };
        for task in self.all.drain(..).filter(|task| task.granted) {
            let principal = principal.clone();
            runtime.spawn(async move {
                task.server.unwatch_task(&task.own, identity_of(&principal)).await;
            });
        }
    }
}
