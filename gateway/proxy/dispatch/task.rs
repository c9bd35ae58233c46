//! Tasks that the gateway follows for a client without tasks: it creates a task if a legacy
//! server's tool requires one (2025-11-25), polls until the task has ended, and returns the result
//! as if there had been no task. The same applies to a modern server that answers a legacy client
//! with a task. The task is cancelled if its client disconnects.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lockgate_authn::Principal;
use lockgate_protocol::jsonrpc::{self, Message, Outcome, Request, SentBy};
use lockgate_protocol::key::Key;
use lockgate_protocol::method::Method;
use lockgate_protocol::scan::{self, MAX_DEPTH};
use lockgate_protocol::write;
use lockgate_text::json;
use lockgate_upstream::{
    Answer, AnswerKind, Call, Caller, ClientChannel, Upstream, UpstreamError, UpstreamErrorKind,
};
use scopeguard::{ScopeGuard, guard};
use serde_json::{Map, Value, json};

use crate::authorize::{Permitted, TaskUse};
use crate::client_channel::CallChannel;
use crate::context::{RequestContext, identity_of, make_request};
use crate::dispatch::parking::ask_client;
use crate::rescue::RequestError;

/// Limit on the time that a task is followed.
const FOLLOW_TIMEOUT: Duration = Duration::from_secs(3600);
/// Bounds of the poll interval, regardless of the server's request.
const MIN_PAUSE: Duration = Duration::from_millis(100);
const MAX_PAUSE: Duration = Duration::from_secs(10);
/// Poll interval if the server requests none.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Returns whether the gateway has to follow the task on behalf of the client.
pub(super) fn is_to_follow(
    context: &RequestContext,
    permitted: &Permitted,
    answer: &Answer,
) -> bool {
    answer.kind == AnswerKind::Task && !context.protocol().has_task_extension
        || permitted.task_use == TaskUse::OfGateway && answer.member(Key::Task).is_some()
}

/// Follows the task in a server's response and returns its final result.
pub(super) async fn follow(
    context: &RequestContext,
    permitted: &Permitted,
    answer: &Answer,
    channel: Option<&Arc<CallChannel>>,
) -> Result<Answer, RequestError> {
    let is_modern = answer.kind == AnswerKind::Task;
    let created = if is_modern { None } else { answer.member(Key::Task) };
    let id = match created {
        Some(task) => lockgate_protocol::list::member(task, "taskId"),
        None => answer.member(Key::TaskId),
    };
    let own = id
        .and_then(scan::as_str)
        .ok_or_else(|| permitted.broken("returned a task without an id"))?;
    let task = FollowedTask::new(context, permitted, own.into_owned());
    let followed = guard(&task, |task| task.cancel());
    let ended = if is_modern {
        task.follow_modern(channel).await
    } else {
        task.wait().await?;
        task.ask(Method::TasksResult, &json!({"taskId": task.own}), channel).await
    };
    ScopeGuard::into_inner(followed);
    ended
}

/// Waits until a legacy server's task has ended or requires input. A `tasks/result` request then
/// gets the result, or carries the server's questions.
pub(super) async fn wait(
    context: &RequestContext,
    permitted: &Permitted,
) -> Result<(), RequestError> {
    FollowedTask::new(context, permitted, permitted.target().to_owned()).wait().await
}

pub(super) struct FollowedTask<'a> {
    pub(super) context: &'a RequestContext,
    pub(super) permitted: &'a Permitted,
    /// The server's own id.
    pub(super) own: String,
    began: Instant,
}

impl<'a> FollowedTask<'a> {
    pub(super) fn new(context: &'a RequestContext, permitted: &'a Permitted, own: String) -> Self {
        Self { context, permitted, own, began: Instant::now() }
    }

    pub(super) async fn ask(
        &self,
        method: Method,
        params: &Value,
        channel: Option<&Arc<CallChannel>>,
    ) -> Result<Answer, RequestError> {
        let Some(request) = make_request(method, params) else {
            return Err(self.permitted.broken("has a task with an invalid id"));
        };
        let server = &**self.permitted.server();
        let by = (&self.context.caller, &self.context.rights.principal);
        call(server, by, &self.own, &request, channel)
            .await
            .map_err(|failure| RequestError::of_call(server, &failure))
    }

    /// Polls the task; returns its status and the whole response.
    pub(super) async fn look(&self) -> Result<(String, Answer), RequestError> {
        let answer = self.ask(Method::TasksGet, &json!({"taskId": self.own}), None).await?;
        if let Outcome::Error(error) = &answer.outcome {
            let problem = RequestError::relayed(self.context, self.permitted, *error, &answer.text);
            return Err(problem);
        }
        let Some(status) = text_of(&answer, Key::Status) else {
            return Err(self.permitted.broken("has a task without a status"));
        };
        let status = status.into_owned();
        Ok((status, answer))
    }

    /// Waits for the poll interval, or fails after [`FOLLOW_TIMEOUT`].
    async fn pause(&self, answer: &Answer) -> Result<(), RequestError> {
        if self.began.elapsed() > FOLLOW_TIMEOUT {
            let words = "the task did not end within an hour and is being cancelled";
            let failure = UpstreamErrorKind::Timeout.error(words);
            return Err(RequestError::failed(self.permitted.server().slug(), &failure));
        }
        let pause = wanted_pause(answer).unwrap_or(POLL_INTERVAL);
        tokio::time::sleep(pause.clamp(MIN_PAUSE, MAX_PAUSE)).await;
        Ok(())
    }

    async fn wait(&self) -> Result<(), RequestError> {
        loop {
            let (status, answer) = self.look().await?;
            if status != "working" {
                return Ok(());
            }
            self.pause(&answer).await?;
        }
    }

    /// Follows a task of the extension: its state includes the result and the questions.
    async fn follow_modern(
        &self,
        channel: Option<&Arc<CallChannel>>,
    ) -> Result<Answer, RequestError> {
        let mut asked = HashSet::new();
        loop {
            let (status, answer) = self.look().await?;
            match (status.as_str(), answer.member(Key::Result), answer.member(Key::Error)) {
                ("completed", Some(result), _) => {
                    return read_response(self.permitted, write::result(b"0", result));
                }
                ("failed", _, Some(error)) => {
                    let error = [br#"{"jsonrpc":"2.0","id":0,"error":"#, error, b"}"].concat();
                    return read_response(self.permitted, error);
                }
                ("cancelled", ..) => return Err(self.permitted.broken("cancelled the task")),
                ("input_required", ..) => {
                    let new = unasked(&answer, &mut asked);
                    if !new.is_empty() {
                        self.answer(new, channel).await?;
                        continue;
                    }
                }
                ("working", ..) => {}
                _ => return Err(self.permitted.broken("has a task that is not valid")),
            }
            self.pause(&answer).await?;
        }
    }

    /// Asks the client the task's questions and sends the answers to the server.
    async fn answer(
        &self,
        questions: Map<String, Value>,
        channel: Option<&Arc<CallChannel>>,
    ) -> Result<(), RequestError> {
        let asks = json!({"inputRequests": questions}).to_string();
        let asks = read_response(self.permitted, write::result(b"0", asks.as_bytes()))?;
        let channel = channel.map(|channel| &**channel);
        let next = ask_client(self.permitted, &asks, channel).await?;
        let mut replaced = next.replaced().iter();
        let answers = replaced.rfind(|(name, _)| *name == Key::InputResponses);
        let answers = answers.and_then(|(_, value)| value.as_deref());
        let answers = json::from_slice(answers.unwrap_or(b"{}")).unwrap_or(Value::Null);
        let params = json!({"taskId": self.own, "inputResponses": answers});
        let taken = self.ask(Method::TasksUpdate, &params, None).await?;
        match &taken.outcome {
            Outcome::Error(error) => {
                Err(RequestError::relayed(self.context, self.permitted, *error, &taken.text))
            }
            Outcome::Result(..) => Ok(()),
        }
    }

    /// Cancels the task in the background.
    fn cancel(&self) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let server = Arc::clone(self.permitted.server());
        let caller = self.context.caller.clone();
        let principal = self.context.rights.principal.clone();
        let own = self.own.clone();
        runtime.spawn(async move {
            if let Some(request) = make_request(Method::TasksCancel, &json!({"taskId": own})) {
                let _ = call(&*server, (&caller, &principal), &own, &request, None).await;
            }
        });
    }
}

fn text_of<'a>(answer: &'a Answer, key: Key) -> Option<Cow<'a, str>> {
    scan::as_str(answer.member(key)?)
}

fn wanted_pause(answer: &Answer) -> Option<Duration> {
    let ms = answer.member(Key::PollIntervalMs).or(answer.member(Key::PollInterval))?;
    Some(Duration::from_millis(json::from_slice(ms).ok()?))
}

/// Returns the questions that are not in `asked` yet, and adds them there.
fn unasked(answer: &Answer, asked: &mut HashSet<String>) -> Map<String, Value> {
    let all = answer.member(Key::InputRequests).unwrap_or(b"{}");
    let mut new: Map<String, Value> = json::from_slice(all).unwrap_or_default();
    new.retain(|key, _| asked.insert(key.clone()));
    new
}

async fn call(
    server: &dyn Upstream,
    (caller, principal): (&Caller, &Principal),
    own: &str,
    request: &Request,
    channel: Option<&Arc<CallChannel>>,
) -> Result<Answer, UpstreamError> {
    let identity = identity_of(principal);
    let channel = channel.map(|channel| Arc::clone(channel) as Arc<dyn ClientChannel>);
    let call = Call { identity: Some(&identity), channel, ..Call::new(own, request, caller) };
    server.call(call).await
}

/// Parses a response from a task, or written by the gateway for a task.
pub(super) fn read_response(permitted: &Permitted, text: Vec<u8>) -> Result<Answer, RequestError> {
    match jsonrpc::parse(text.into(), MAX_DEPTH, SentBy::Server) {
        Ok(Message::Response(response)) => {
            let is_error = matches!(response.outcome, Outcome::Error(_));
            let kind = if is_error { AnswerKind::Error } else { AnswerKind::Complete };
            Ok(Answer { text: response.text, outcome: response.outcome, kind })
        }
        _ => Err(permitted.broken("has a task that ended without a valid result")),
    }
}
