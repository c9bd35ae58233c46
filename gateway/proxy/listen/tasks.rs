//! Tasks that a listen follows (tasks extension). When a server says that one has news, it is read
//! in the caller's name.

use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use lockgate_protocol::jsonrpc::Response;
use lockgate_upstream::{BoxFuture, ServerId, Upstream};
use serde_json::{Map, Value};

use crate::authorize::{Task, find_task, require_tasks};
use crate::context::RequestContext;
use crate::gateway::Gateway;
use crate::rescue::RequestError;
use crate::task_status;

/// The tasks of one listen.
#[derive(Default)]
pub(super) struct Tasks {
    all: Vec<Followed>,
    reading: FuturesUnordered<BoxFuture<'static, (usize, Option<Response>)>>,
}

struct Followed {
    server: Arc<dyn Upstream>,
    own: String,
    /// The id that the caller knows.
    token: String,
    granted: bool,
    /// It is being read; `again` when there was news meanwhile.
    reading: bool,
    again: bool,
}

impl Tasks {
    /// What a listen asks for; tasks that are not this caller's are left out, like those that do
    /// not exist.
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
        Ok(tasks)
    }

    /// Asks the servers; gives the tasks that the caller will hear of.
    pub(super) async fn grant(&mut self) -> Vec<String> {
        let mut asking = Vec::with_capacity(self.all.len());
        for task in &mut self.all {
            asking.push(task.ask());
        }
        futures_util::future::join_all(asking).await;
        self.all.retain(|task| task.granted);
        let mut tokens = Vec::with_capacity(self.all.len());
        for task in &self.all {
            tokens.push(task.token.clone());
        }
        tokens
    }

    /// A server has news of a task.
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

    /// Change were lost: every task may have some.
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

    /// The next task that has been read; waits for ever while there is nothing to read. Cancel
    /// safe.
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

    /// Asks the server to tell of it.
    async fn ask(&mut self) {
        self.granted = self.server.watch_task(&self.own).await.is_ok();
    }
}

impl Drop for Tasks {
    fn drop(&mut self) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        for task in self.all.drain(..) {
            if task.granted {
                runtime.spawn(async move { task.server.unwatch_task(&task.own).await });
            }
        }
    }
}
