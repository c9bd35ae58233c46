//! Tasks of legacy servers (2025-11-25) for modern clients with the tasks extension, created for
//! tools that require a task and converted to the extension's format. They run on a connection that
//! cannot carry questions, so none has to be answered. Pages: basic/utilities/tasks.mdx
//! (2025-11-25), ext-tasks specification/draft/tasks.md.

use lockgate_protocol::jsonrpc::{ErrorObject, Outcome};
use lockgate_protocol::key::Key;
use lockgate_protocol::list;
use lockgate_protocol::meta;
use lockgate_protocol::method::Method;
use lockgate_protocol::revision::Era;
use lockgate_protocol::scan::MAX_DEPTH;
use lockgate_protocol::write::{self, Object};
use lockgate_upstream::{Answer, AnswerKind};
use serde_json::json;

use super::task::{FollowedTask, broken, read_response};
use crate::authorize::Permitted;
use crate::context::RequestContext;
use crate::rescue::RequestError;
use crate::response::missing_content;

/// Returns whether a modern client's request is about a task of a legacy server.
pub(super) fn is_about_one(context: &RequestContext, permitted: &Permitted) -> bool {
    let is_about_task =
        matches!(permitted.method(), Method::TasksGet | Method::TasksUpdate | Method::TasksCancel);
    if !is_about_task || context.era() == Era::Legacy {
        return false;
    }
    let status = permitted.server().status();
    matches!(&status.peer, Some(peer) if peer.era == Era::Legacy)
}

/// Converts the response that created a task.
pub(super) fn convert_created(
    permitted: &Permitted,
    answer: &Answer,
) -> Result<Answer, RequestError> {
    let Some(task) = answer.member(Key::Task) else {
        return Err(broken(&**permitted.server(), "returned no task, although one was requested"));
    };
    let mut result = Vec::new();
    let mut object = Object::open(&mut result);
    object.raw("resultType", b"\"task\"");
    write_task(&mut object, task, None);
    object.close();
    let created = read_response(&**permitted.server(), write::result(b"0", &result))?;
    Ok(Answer { kind: AnswerKind::Task, ..created })
}

pub(super) async fn answer(
    context: &RequestContext,
    permitted: &Permitted,
) -> Result<Answer, RequestError> {
    let task = FollowedTask::of_client(context, permitted);
    let mut result = Vec::new();
    let mut object = Object::open(&mut result);
    object.raw("resultType", b"\"complete\"");
    match permitted.method() {
        Method::TasksGet => describe(&task, &mut object).await?,
        Method::TasksCancel => cancel(&task).await?,
        // Checks that the task exists; it has no questions to answer.
        _ => drop(task.look().await?),
    }
    object.close();
    read_response(&**permitted.server(), write::result(b"0", &result))
}

/// Cancels a task. The extension permits cancelling a task that has ended.
async fn cancel(task: &FollowedTask<'_>) -> Result<(), RequestError> {
    let params = json!({"taskId": task.own});
    let answer = task.ask(Method::TasksCancel, &params, None).await?;
    let Outcome::Error(error) = &answer.outcome else { return Ok(()) };
    match task.look().await?.0.as_str() {
        "completed" | "failed" | "cancelled" => Ok(()),
        _ => Err(RequestError::relayed(task.context, task.permitted, *error, &answer.text)),
    }
}

/// Writes the state of a task, including its result or error.
async fn describe(task: &FollowedTask<'_>, object: &mut Object<'_>) -> Result<(), RequestError> {
    let (status, described) = task.look().await?;
    let Outcome::Result(span, _) = &described.outcome else { return Ok(()) };
    let described = span.of(&described.text);
    if !matches!(status.as_str(), "completed" | "failed") {
        // Questions are not reported, since they cannot be answered.
        let shown = if status == "input_required" { "working" } else { status.as_str() };
        write_task(object, described, Some(shown));
        return Ok(());
    }
    let ended = task.ask(Method::TasksResult, &json!({"taskId": task.own}), None).await?;
    match &ended.outcome {
        Outcome::Error(error) => {
            write_task(object, described, Some("failed"));
            write_error(object.key("error"), *error, &ended.text);
        }
        // Includes results with `isError`: only a protocol error makes the task a failure.
        Outcome::Result(..) => {
            write_task(object, described, Some("completed"));
            let content = missing_content(&ended, task.permitted.response().is_some());
            write_result(object.key("result"), &ended, content);
        }
    }
    Ok(())
}

/// Writes the members of a 2025-11-25 task under the names of the extension.
fn write_task(object: &mut Object<'_>, task: &[u8], status: Option<&str>) {
    for (name, new) in [
        ("taskId", "taskId"),
        ("status", "status"),
        ("statusMessage", "statusMessage"),
        ("createdAt", "createdAt"),
        ("lastUpdatedAt", "lastUpdatedAt"),
        ("ttl", "ttlMs"),
        ("pollInterval", "pollIntervalMs"),
    ] {
        let instead = if name == "status" { status } else { None };
        match (instead, list::member(task, name)) {
            (Some(status), _) => object.string(new, status),
            (None, Some(value)) => object.raw(new, value),
            // The extension requires `ttlMs`; `null` means unlimited.
            (None, None) if name == "ttl" => object.raw(new, b"null"),
            (None, None) => {}
        }
    }
}

fn write_error(out: &mut Vec<u8>, error: ErrorObject, text: &[u8]) {
    let mut object = Object::open(out);
    object.raw("code", error.code.to_string().as_bytes());
    object.string("message", &error.message(text));
    if let Some(data) = error.data(text) {
        object.raw("data", data);
    }
    object.close();
}

/// Writes the result of a task without the hop-by-hop members of `_meta`.
fn write_result(out: &mut Vec<u8>, ended: &Answer, missing_content: Option<Vec<u8>>) {
    let mut object = Object::open(out);
    if let Some(content) = missing_content {
        object.raw("content", &content);
    }
    for member in ended.members() {
        let value = member.value.of(&ended.text);
        if member.known != Key::Meta {
            object.copy(member.key.of(&ended.text), value);
            continue;
        }
        let members = meta::members(value, MAX_DEPTH).unwrap_or_default();
        if meta::has_end_to_end(value, &members) {
            let mut inner = Object::open(object.key("_meta"));
            meta::copy_end_to_end(&mut inner, value, &members);
            inner.close();
        }
    }
    object.close();
}
