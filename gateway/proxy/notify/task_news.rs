//! Status notifications for tasks that legacy clients follow (`notifications/tasks/status`). Each
//! task is read on behalf of its client. Page: basic/utilities/tasks.mdx (2025-11-25).

use std::sync::Arc;
use std::time::Duration;

use lockgate_admission::spawn;
use lockgate_protocol::method::Method;
use lockgate_protocol::write::{self, Object};
use lockgate_upstream::ServerId;

use crate::context::RequestContext;
use crate::gateway::Gateway;
use crate::rights::CallerRights;
use crate::session::Session;
use crate::task_status;
use crate::transport::Transport;

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
        let Some(context) = self.task_request(session, token) else { return };
        let Some(task) = task_status::read(self, context).await else { return };
        let Some(log) = session.log(0) else { return };
        let mut params = Vec::new();
        let mut object = Object::open(&mut params);
        task_status::write(&mut object, &task);
        object.close();
        log.push(write::notification(Method::TaskStatus.as_str(), &params).into());
    }

    /// Builds a request for a task of a session under the current rules.
    fn task_request(&self, session: &Arc<Session>, token: &str) -> Option<Box<RequestContext>> {
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
            request: task_status::make_request(token, snapshot.config.limits.depth)?,
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
