//! Tools that run as tasks if the client declared the tasks extension. Otherwise they complete
//! within the call, except those that require a task.

use std::time::Duration;

use rmcp::{
    ErrorData,
    model::{
        CallToolResponse, CallToolResult, ClientCapabilities, ContentBlock, CreateTaskResult,
        InputRequest, JsonObject, Tool,
    },
    task_manager::{TaskContext, TaskExit, TaskOptions},
};
use serde_json::{Value, json};

use super::{Answer, required, rounds, text, with_schema};
use crate::call::{Asked, Call};

const LONGEST_SECONDS: u64 = 120;
const POLL_MS: u64 = 200;

pub(super) fn list() -> Vec<Tool> {
    let object = |properties: Value, required: Value| json!({"type": "object", "properties": properties, "required": required});
    let nothing = || object(json!({}), json!([]));
    vec![
        with_schema(
            "greet",
            "Greets at once",
            object(json!({"name": {"type": "string"}}), json!(["name"])),
        ),
        with_schema(
            "slow_compute",
            "Sleeps, then answers; a task if the client knows tasks",
            object(
                json!({"seconds": {"type": "integer"}, "label": {"type": "string"}}),
                json!(["seconds"]),
            ),
        ),
        with_schema("failing_job", "A task that ends in a tool error", nothing()),
        with_schema("protocol_error_job", "A task that ends in a protocol error", nothing()),
        with_schema(
            "confirm_delete",
            "A task that asks the user once",
            object(json!({"filename": {"type": "string"}}), json!(["filename"])),
        ),
        with_schema("multi_input", "A task that asks two things at once", nothing()),
        with_schema("test_tool_with_task", "Asks the user, then becomes a task", nothing()),
    ]
}

pub(super) async fn call(call: &Call, name: &str, arguments: &JsonObject) -> Option<Answer> {
    Some(match name {
        "greet" => match required(arguments, "name") {
            Ok(name) => text(format!("Hello, {name}!")),
            Err(error) => Err(error),
        },
        "slow_compute" => slow_compute(call, arguments).await,
        "failing_job" => as_task(call, |_| async {
            tokio::time::sleep(Duration::from_millis(500)).await;
            Ok(CallToolResult::error(vec![ContentBlock::text("The job failed")]))
        }),
        "protocol_error_job" => as_task(call, |_| async {
            Err(TaskExit::Error(ErrorData::internal_error("The job broke", None)))
        }),
        "confirm_delete" => confirm_delete(call, arguments).await,
        "multi_input" => multi_input(call).await,
        "test_tool_with_task" => greeting_task(call).await,
        _ => return None,
    })
}

/// Starts a task, or rejects a client that has not declared tasks.
fn as_task<F, W>(call: &Call, work: F) -> Answer
where
    F: FnOnce(TaskContext) -> W + Send + 'static,
    W: Future<Output = Result<CallToolResult, TaskExit>> + Send + 'static,
{
    if !call.is_modern() {
        return Err(ErrorData::invalid_request("this tool needs the tasks extension", None));
    }
    if !call.may_become_task() {
        return Err(ErrorData::missing_required_client_capability(
            ClientCapabilities::builder().enable_tasks().build(),
        ));
    }
    let options = TaskOptions::new().with_poll_interval_ms(POLL_MS);
    let task = call.shared.tasks.spawn(options, |context| Box::pin(work(context)));
    Ok(CallToolResponse::Task(CreateTaskResult::new(task)))
}

async fn slow_compute(call: &Call, arguments: &JsonObject) -> Answer {
    let seconds = arguments
        .get("seconds")
        .and_then(Value::as_f64)
        .filter(|seconds| *seconds >= 0.0)
        .ok_or_else(|| ErrorData::invalid_params("seconds has to be a number", None))?;
    let pause = Duration::from_secs(LONGEST_SECONDS)
        .min(Duration::from_secs_f64(seconds.min(f64::from(u16::MAX))));
    let label = arguments.get("label").and_then(Value::as_str).unwrap_or("nameless");
    let words = format!("Computed {label} in {seconds} s");
    if call.may_become_task() {
        return as_task(call, move |context| async move {
            tokio::select! {
                () = context.cancelled() => Err(TaskExit::Cancelled),
                () = tokio::time::sleep(pause) => Ok(said(words)),
            }
        });
    }
    tokio::select! {
        () = call.context.ct.cancelled() => Err(ErrorData::internal_error("cancelled", None)),
        () = tokio::time::sleep(pause) => text(words),
    }
}

async fn confirm_delete(call: &Call, arguments: &JsonObject) -> Answer {
    let filename = required(arguments, "filename")?.to_owned();
    let question = rounds::confirmation(&format!("Delete {filename}?"));
    if call.may_become_task() {
        return as_task(call, move |context| async move {
            let answer = context.request_input("confirm", asked(question)?).await?;
            Ok(said(format!("{filename}: {}", answer["action"])))
        });
    }
    match call.ask(&[("confirm", question)], None).await? {
        Asked::Pending(pending) => Ok(pending.into()),
        Asked::Answered(answers) => {
            text(format!("{filename}: {}", answers.get("confirm")["action"]))
        }
    }
}

async fn multi_input(call: &Call) -> Answer {
    let (name, confirm) = (rounds::user_name(), rounds::confirmation("Are you sure?"));
    if call.may_become_task() {
        return as_task(call, move |context| async move {
            let (name, confirm) = tokio::join!(
                context.request_input("name", asked(name)?),
                context.request_input("confirm", asked(confirm)?),
            );
            Ok(said(format!("{} {}", name?["action"], confirm?["action"])))
        });
    }
    match call.ask(&[("name", name), ("confirm", confirm)], None).await? {
        Asked::Pending(pending) => Ok(pending.into()),
        Asked::Answered(answers) => {
            text(format!("{} {}", answers.get("name")["action"], answers.get("confirm")["action"]))
        }
    }
}

async fn greeting_task(call: &Call) -> Answer {
    match call.ask(&[("user_name", rounds::user_name())], None).await? {
        Asked::Pending(pending) => Ok(pending.into()),
        Asked::Answered(answers) => {
            let name = answers.field("user_name", "name");
            as_task(call, move |_| async move { Ok(said(format!("Hello, {name}!"))) })
        }
    }
}

fn asked(question: Value) -> Result<InputRequest, TaskExit> {
    serde_json::from_value(question)
        .map_err(|error| TaskExit::Error(ErrorData::internal_error(error.to_string(), None)))
}

fn said(words: String) -> CallToolResult {
    CallToolResult::success(vec![ContentBlock::text(words)])
}
