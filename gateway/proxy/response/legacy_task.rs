//! Tasks of 2025-11-25, under the ids used by their clients.

use lockgate_protocol::key::Key;
use lockgate_protocol::method::Method;
use lockgate_upstream::ServerId;
use serde_json::{Value, json};

use crate::authorize::Permitted;
use crate::context::RequestContext;
use crate::session::SessionTask;
use crate::tokens;

/// Writes the task that a call created.
///
/// # Errors
/// A description of an invalid task.
pub(super) fn write_task(
    context: &RequestContext,
    permitted: &Permitted,
    value: &[u8],
) -> Result<Vec<u8>, &'static str> {
    let mut task = serde_json::from_slice(value).unwrap_or(Value::Null);
    let Some(own) = task["taskId"].as_str() else { return Err("a task without an id") };
    let server = &**permitted.server();
    let Some(token) = tokens::seal_task(context, server, own) else {
        return Err("a task id that is too long");
    };
    if let Some(session) = &context.session {
        session.remember_task(SessionTask::new(token.clone(), ServerId::of(server), own));
    }
    task["taskId"] = token.into();
    Ok(task.to_string().into_bytes())
}

/// Returns the `related-task` value for a request for a task's result.
pub(super) fn related_task(context: &RequestContext) -> Option<String> {
    let request = &context.request;
    if request.method != Method::TasksResult {
        return None;
    }
    let id = request.param_str(Key::TaskId)?;
    Some(json!({"taskId": id}).to_string())
}
