//! The calls to a server for a request. For a legacy client, the gateway asks a modern server's
//! questions and repeats the call with the answers. Renders the final response for the client.

use std::sync::Arc;

use lockgate_protocol::jsonrpc::ErrorObject;
use lockgate_protocol::key::Key;
use lockgate_protocol::method::Method;
use lockgate_protocol::scan::MAX_DEPTH;
use lockgate_protocol::write::{self, Object};
use lockgate_protocol::{code, jsonrpc, list, question, scan};
use lockgate_telemetry::Outcome;
use lockgate_text::{hex, json};
use lockgate_upstream::{
    Answer, AnswerKind, Call, ClientChannel, ConnectPrompt, ResponseSink, UpstreamError,
};
use serde_json::{Map, Value, json};

use crate::authorize::{Permitted, TaskUse};
use crate::caller_view::RequestCallerView;
use crate::catalog::is_legacy;
use crate::client_channel::CallChannel;
use crate::context::{RequestContext, Resumption, identity_of};
use crate::dispatch::parking::{is_pausable, write_input_required};
use crate::dispatch::record::CallRecord;
use crate::dispatch::task::{FollowedTask, read_response};
use crate::dispatch::{parking, task};
use crate::gateway::Gateway;
use crate::relay::Relay;
use crate::rescue::RequestError;
use crate::response::splice::write_meta;
use crate::response::{self, missing_content};
use crate::transport::Text;

/// Size in bytes above which a response is rendered on the CPU pool.
const LARGE_RESPONSE: usize = 1 << 20;

/// The ways of a call's messages and response to its client.
#[derive(Default)]
pub struct ClientPaths {
    pub(super) channel: Option<Arc<CallChannel>>,
    /// Path of a large response.
    pub(super) relay: Option<Arc<Relay>>,
}

impl ClientPaths {
    pub(super) fn through(channel: Arc<CallChannel>) -> Self {
        Self { channel: Some(channel), relay: None }
    }
}

/// Calls the server until it returns a result, and renders it for the client. Rare steps are boxed,
/// to keep the future of a request small.
pub(super) async fn run_rounds(
    record: &mut CallRecord<'_>,
    permitted: &mut Permitted,
    paths: &ClientPaths,
) -> Result<Text, RequestError> {
    let context = record.context;
    let mut rounds = 0;
    // The response to a plain call neither asks nor creates a task.
    let is_plain = permitted.is_plain() && !context.caller.interactive;
    if permitted.method() == Method::TasksResult {
        Box::pin(task::wait(context, permitted)).await?;
    }
    let answer = loop {
        if is_about_one(context, permitted) {
            break Box::pin(answer(context, permitted)).await?;
        }
        let mut channel = paths.channel.as_ref();
        let mut answer = if !is_plain && parking::may_park(context, permitted) {
            let channel = channel.take().cloned();
            Box::pin(park_call(record, permitted, channel)).await?
        } else {
            make_call(record, permitted, paths).await?
        };
        let is_final = is_plain && answer.kind == AnswerKind::Complete;
        if permitted.task_use == TaskUse::Converted && answer.kind == AnswerKind::Complete {
            answer = convert_created(permitted, &answer)?;
        } else if !is_final && task::is_to_follow(context, permitted, &answer) {
            answer = Box::pin(task::follow(context, permitted, &answer, channel)).await?;
        }
        if let Some(relay) = &paths.relay
            && let Some(outcome) = relay.outcome()
        {
            record.outcome = outcome;
            return Ok(Text::default());
        }
        if is_final {
            break answer;
        }
        parking::check_questions(permitted, &answer)?;
        match (&answer.outcome, answer.kind) {
            (jsonrpc::Outcome::Error(_), _) => {
                break parking::ask_to_open(context, permitted, &answer).unwrap_or(Ok(answer))?;
            }
            (_, AnswerKind::InputRequired) if !context.protocol().asks_by_result => {
                rounds += 1;
                if rounds > context.snapshot.config.limits.question_rounds {
                    return Err(RequestError::too_many_rounds(permitted.server().slug()));
                }
                let asked = parking::ask_client(permitted, &answer, paths.channel.as_deref());
                let next = Box::pin(asked).await?;
                *permitted = next;
            }
            _ => break answer,
        }
    };
    finish(record, permitted, answer).await
}

/// Makes a call that may ask its modern client questions while it runs.
async fn park_call(
    record: &CallRecord<'_>,
    permitted: &mut Permitted,
    channel: Option<Arc<CallChannel>>,
) -> Result<Answer, RequestError> {
    let answer = parking::make_call(record, permitted, channel).await?;
    answer.map_err(|failure| report(record, permitted, &failure))
}

/// Renders the server's final response for the client and records the outcome.
async fn finish(
    record: &mut CallRecord<'_>,
    permitted: &Permitted,
    answer: Answer,
) -> Result<Text, RequestError> {
    let CallRecord { gateway, context, .. } = *record;
    if let jsonrpc::Outcome::Error(error) = &answer.outcome {
        return Err(RequestError::relayed(context, permitted, *error, &answer.text));
    }
    let failed = answer.member(Key::IsError) == Some(b"true");
    record.outcome = if failed { Outcome::ToolError } else { Outcome::Ok };
    if answer.kind == AnswerKind::InputRequired
        && let Some(digest) = permitted.approved()
    {
        // The client's next request continues the approved call without a new approval.
        gateway.approvals.asked.open_round(*digest, &context.snapshot.config.limits);
    }
    if answer.text.len() <= LARGE_RESPONSE {
        return response::write_response(context, permitted, &answer, gateway.budget());
    }
    Box::pin(write_large(gateway, context, permitted, answer)).await
}

/// Renders a large response on the CPU pool, to keep this thread responsive.
async fn write_large(
    gateway: &Gateway,
    context: &RequestContext,
    permitted: &Permitted,
    answer: Answer,
) -> Result<Text, RequestError> {
    let Ok(turn) = gateway.cpu_pool.turn(context.rights.principal.caller_id()).await else {
        return Err(RequestError::no_turn());
    };
    let context = context.instead(context.request.clone());
    let permitted = permitted.for_response();
    let budget = Arc::clone(gateway.budget());
    turn.run(move || response::write_response(&context, &permitted, &answer, &budget)).await
}

/// Makes a call. If it lacks the caller's account, asks for that, and may make the call once more.
async fn make_call(
    record: &CallRecord<'_>,
    permitted: &mut Permitted,
    paths: &ClientPaths,
) -> Result<Answer, RequestError> {
    let failure = match send_call(record, permitted, paths).await {
        Ok(answer) => return Ok(answer),
        Err(failure) => failure,
    };
    let problem = report(record, permitted, &failure);
    let Some(prompt) = failure.connect else { return Err(problem) };
    Box::pin(async move {
        let channel = paths.channel.as_deref();
        let caller = RequestCallerView { gateway: record.gateway, context: record.context };
        if let Some(question) = ask_to_connect(permitted, channel, &prompt, &caller).await? {
            return Ok(question);
        }
        let called = send_call(record, permitted, paths).await;
        called.map_err(|failure| report(record, permitted, &failure))
    })
    .await
}

async fn send_call(
    record: &CallRecord<'_>,
    permitted: &Permitted,
    paths: &ClientPaths,
) -> Result<Answer, UpstreamError> {
    let CallRecord { gateway, context, .. } = *record;
    let call = Call {
        replaced: permitted.replaced(),
        channel: paths.channel.clone().map(|channel| channel as Arc<dyn ClientChannel>),
        sink: paths.relay.clone().map(|relay| relay as Arc<dyn ResponseSink>),
        tool: permitted.metrics.clone(),
        trace: record.call_trace(),
        ..Call::new(permitted.target(), &context.request, &context.caller)
    };
    let server = permitted.server();
    let own;
    let client = match server.as_client() {
        Some(client) => client,
        None => {
            own = server.client_of(identity_of(&context.rights.principal));
            let Some(own) = &own else {
                let caller_view = RequestCallerView { gateway, context };
                return server.call(Call { caller_view: Some(&caller_view), ..call }).await;
            };
            own
        }
    };
    client.run_call(&call).await
}

fn report(record: &CallRecord<'_>, permitted: &Permitted, failure: &UpstreamError) -> RequestError {
    let server = &**permitted.server();
    let ms = record.began.elapsed().as_millis();
    if failure.is_refusal() {
        // The refusing limit logs refusals in aggregate, so that retrying clients cannot flood the
        // log.
        tracing::debug!(server = server.slug(), %failure, ms, "call refused");
    } else {
        tracing::info!(server = server.slug(), %failure, ms, "call failed");
    }
    RequestError::of_failure(record.context, server, failure)
}

// Calls that lack an account of their caller at the server. Clients that open pages for their user
// are asked to open the link; with `auth.waits`, the call then waits for the account and is made
// once more. Others get the link as text (`rescue/relay`). Pages: client/elicitation.mdx
// (2025-11-25, 2026-07-28).

/// Key of the question to a modern client.
const KEY: &str = "connect";
const ACCEPT: &str = "accept";

/// Asks the caller to connect an account. Returns the response with the question, or `None` after
/// an account was connected or the time for it has passed: the call is then made again.
///
/// # Errors
/// The response with the link, or too many calls are waiting.
async fn ask_to_connect(
    permitted: &mut Permitted,
    channel: Option<&CallChannel>,
    prompt: &ConnectPrompt,
    caller: &RequestCallerView<'_>,
) -> Result<Option<Answer>, RequestError> {
    let context = caller.context;
    let slug = permitted.server().slug();
    let plain = RequestError::needs_account(context, slug, prompt);
    let params = json!({
        "mode": "url", "url": prompt.url,
        "message": format!("Connect your account at the server {slug}, then return."),
    });
    let declared = &context.caller.capabilities;
    let text = params.to_string();
    if !question::may_ask(declared, Method::Elicit, text.as_bytes(), context.revision) {
        return Err(plain);
    }
    let is_accepted = match channel {
        _ if context.protocol().asks_by_result => match find_action(context) {
            _ if !is_pausable(permitted.method()) => return Err(plain),
            Some(action) => action == ACCEPT,
            None => {
                permitted.resumption = Resumption::Anew;
                let question = json!({"method": Method::Elicit.as_str(), "params": params});
                let questions = Map::from_iter([(KEY.to_owned(), question)]);
                return write_input_required(questions, MAX_DEPTH).map(Some);
            }
        },
        Some(channel) if !prompt.waits.is_zero() => {
            let answer = channel.ask_own(text.as_bytes(), prompt.waits).await;
            let answer = answer.ok().and_then(|text| json::from_slice::<Value>(&text).ok());
            answer.is_some_and(|answer| answer["action"] == ACCEPT)
        }
        _ => return Err(url_elicitation_error(plain, params)),
    };
    if !is_accepted || prompt.waits.is_zero() {
        return Err(plain);
    }
    // Waits as one of the caller's parked calls.
    let limits = &context.snapshot.config.limits;
    let _share = caller.gateway.parked.take_share(&context.rights.principal, limits)?;
    let _ = tokio::time::timeout(prompt.waits, permitted.server().wait_for_account(caller)).await;
    Ok(None)
}

/// Returns the modern client's answer to the question, if this is its next round.
fn find_action(context: &RequestContext) -> Option<String> {
    context.request.param(Key::RequestState)?;
    let answer = list::member(context.request.param(Key::InputResponses)?, KEY)?;
    Some(scan::as_str(list::member(answer, "action")?)?.into_owned())
}

/// Returns the error that a client of 2025-11-25 with URL elicitation requires.
fn url_elicitation_error(plain: RequestError, mut params: Value) -> RequestError {
    let Some(id) = hex::random::<16>() else { return plain };
    params["elicitationId"] = id.into();
    let mut problem = RequestError::new(code::URL_ELICITATION, plain.message.clone());
    problem.data = Some(json!({"elicitations": [params], "reason": "needs_account"}));
    problem.outcome = plain.outcome;
    problem
}

/// Returns whether a request of the tasks extension is about a task of a legacy server.
pub(super) fn is_about_one(context: &RequestContext, permitted: &Permitted) -> bool {
    let is_about_task =
        matches!(permitted.method(), Method::TasksGet | Method::TasksUpdate | Method::TasksCancel);
    is_about_task && context.protocol().has_task_extension && is_legacy(&**permitted.server())
}

/// Converts the response that created a task.
pub(super) fn convert_created(
    permitted: &Permitted,
    answer: &Answer,
) -> Result<Answer, RequestError> {
    let Some(task) = answer.member(Key::Task) else {
        return Err(permitted.broken("returned no task, although one was requested"));
    };
    let mut result = Vec::new();
    let mut object = Object::open(&mut result);
    object.raw("resultType", b"\"task\"");
    write_task(&mut object, task, None);
    object.close();
    let created = read_response(permitted, write::result(b"0", &result))?;
    Ok(Answer { kind: AnswerKind::Task, ..created })
}

pub(super) async fn answer(
    context: &RequestContext,
    permitted: &Permitted,
) -> Result<Answer, RequestError> {
    let task = FollowedTask::new(context, permitted, permitted.target().to_owned());
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
    read_response(permitted, write::result(b"0", &result))
}

/// Cancels a task. The extension permits cancelling a task that has ended.
async fn cancel(task: &FollowedTask<'_>) -> Result<(), RequestError> {
    let params = json!({"taskId": task.own});
    let answer = task.ask(Method::TasksCancel, &params, None).await?;
    let jsonrpc::Outcome::Error(error) = &answer.outcome else { return Ok(()) };
    match task.look().await?.0.as_str() {
        "completed" | "failed" | "cancelled" => Ok(()),
        _ => Err(RequestError::relayed(task.context, task.permitted, *error, &answer.text)),
    }
}

/// Writes the state of a task, including its result or error.
async fn describe(task: &FollowedTask<'_>, object: &mut Object<'_>) -> Result<(), RequestError> {
    let (status, described) = task.look().await?;
    let jsonrpc::Outcome::Result(span, _) = &described.outcome else { return Ok(()) };
    let described = span.of(&described.text);
    if !matches!(status.as_str(), "completed" | "failed") {
        // Questions are not reported, since they cannot be answered.
        let shown = if status == "input_required" { "working" } else { status.as_str() };
        write_task(object, described, Some(shown));
        return Ok(());
    }
    let ended = task.ask(Method::TasksResult, &json!({"taskId": task.own}), None).await?;
    match &ended.outcome {
        jsonrpc::Outcome::Error(error) => {
            write_task(object, described, Some("failed"));
            write_error(object.key("error"), *error, &ended.text);
        }
        // Includes results with `isError`: only a protocol error makes the task a failure.
        jsonrpc::Outcome::Result(..) => {
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
        if member.known == Key::Meta {
            write_meta(&mut object, Some(value), None, None);
        } else {
            object.copy(member.key.of(&ended.text), value);
        }
    }
    object.close();
}
