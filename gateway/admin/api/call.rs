//! In-process requests to the gateway: the same message that an MCP client sends, through the same
//! steps, on behalf of the API's caller. The API has no other way to a server.

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;

use axum::Extension;
use axum::body::Bytes;
use axum::extract::FromRequestParts;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, WWW_AUTHENTICATE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue};
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use lockgate_authn::{Peer, Principal};
use lockgate_protocol::method::Method;
use lockgate_protocol::modern::{METHOD_HEADER, NAME_HEADER, VERSION_HEADER};
use lockgate_protocol::revision::{Era, Revision};
use lockgate_protocol::{code, header, meta};
use lockgate_proxy::classify_failure;
use lockgate_proxy::transport::{
    Endpoint, Events, Exchange, ExchangeKind, ReplyBody, Text, Transport,
};
use lockgate_text::json;
use lockgate_upstream::LogLevel;
use serde_json::value::{RawValue, to_raw_value};
use tokio::sync::watch;

use super::answer::{CallResult, CountsItself, read_answer};
use super::operation::*;

/// Parameters of a request, each as it was written.
pub type Params = BTreeMap<String, Box<RawValue>>;

/// Composes a request of this process, with headers that continue a trace. With `has_reader`, the
/// progress and the log of the call are requested. `None` if the request cannot be written.
pub fn compose_request(
    (endpoint, transport): (Endpoint, Transport),
    principal: Principal,
    method: Method,
    mut params: Params,
    mut headers: HeaderMap,
    has_reader: bool,
) -> Option<Exchange> {
    let revision = Revision::NEWEST_MODERN.as_str();
    headers.insert(VERSION_HEADER, HeaderValue::from_static(revision));
    headers.insert(METHOD_HEADER, HeaderValue::from_static(method.as_str()));
    if let Some(target) = read_target(method, &params) {
        let target = HeaderValue::from_str(&header::encode_value(&target));
        headers.insert(NAME_HEADER, target.ok()?);
    }
    let mut own = json!({meta::PROTOCOL_VERSION: revision, meta::CLIENT_CAPABILITIES: {}});
    if has_reader {
        own[meta::PROGRESS_TOKEN] = 1.into();
        own[meta::LOG_LEVEL] = LogLevel::Info.as_str().into();
    }
    params.insert("_meta".to_owned(), to_raw_value(&own).ok()?);
    let message = Message { jsonrpc: "2.0", id: 1, method: method.as_str(), params: &params };
    Some(Exchange {
        endpoint,
        transport,
        // Like stdio, the request has no headers for the tool's parameters.
        peer: Peer::Stdio,
        credentials: None,
        principal,
        kind: ExchangeKind::Post(serde_json::to_vec(&message).ok()?.into()),
        headers,
        takes_streamed_body: false,
    })
}

/// Headers that continue the caller's trace.
const TRACE_HEADERS: [HeaderName; 2] =
    [HeaderName::from_static("traceparent"), HeaderName::from_static("tracestate")];

#[derive(Serialize)]
struct Message<'a> {
    jsonrpc: &'a str,
    id: u8,
    method: &'a str,
    params: &'a Params,
}

/// The parts of an API request that concern its call.
pub(crate) struct CallOrigin {
    pub(crate) headers: HeaderMap,
    /// Receives the messages of the call.
    pub(crate) messages: Option<CallMessages>,
}

impl CallOrigin {
    pub(crate) fn new(headers: HeaderMap) -> Self {
        Self { headers, messages: None }
    }
}

impl<S: Sync> FromRequestParts<S> for CallOrigin {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self::new(parts.headers.clone()))
    }
}

impl IntoResponse for CallResult {
    fn into_response(self) -> Response {
        let head = [(CONTENT_TYPE, "application/json"), (CACHE_CONTROL, "no-store")];
        (Extension(CountsItself), head, self.text).into_response()
    }
}

/// The error of a failed call.
#[derive(Debug)]
pub(crate) struct CallError {
    pub(crate) problem: Problem,
    /// The JSON-RPC error, as the gateway wrote it.
    pub(crate) error: Option<Value>,
}

impl From<Problem> for CallError {
    fn from(problem: Problem) -> Self {
        Self { problem, error: None }
    }
}

pub(crate) fn param(value: &Value) -> Result<Box<RawValue>> {
    to_raw_value(value).map_err(|_| broken())
}

/// Sends a request of the REST API. Dropping the future cancels the request.
pub(crate) async fn call(
    by: &Context,
    origin: &CallOrigin,
    method: Method,
    params: Params,
) -> Result<CallResult> {
    let answer = send(&by.state, &by.caller, origin, Transport::Rest, method, params).await;
    answer.map_err(|error| error.problem)
}

/// Sends a request on behalf of a caller. Dropping the future cancels the request.
pub(crate) async fn send(
    state: &ApiState,
    caller: &Caller,
    origin: &CallOrigin,
    transport: Transport,
    method: Method,
    params: Params,
) -> Result<CallResult, CallError> {
    let target = read_target(method, &params);
    let mut headers = HeaderMap::new();
    for name in TRACE_HEADERS {
        if let Some(value) = origin.headers.get(&name) {
            headers.insert(name, value.clone());
        }
    }
    let place = (Endpoint::All, transport);
    let has_reader = origin.messages.is_some();
    let principal = caller.principal.clone();
    let exchange = compose_request(place, principal, method, params, headers, has_reader);
    let exchange = exchange.ok_or_else(broken)?;
    let reply = state.gateway.receive_modern(&exchange).await;
    let challenge = reply.header(&WWW_AUTHENTICATE).cloned();
    let status = reply.status;
    let text = match reply.body {
        ReplyBody::Message(text) => text,
        ReplyBody::Events(events) => take_answer(events, origin.messages.as_ref()).await,
        ReplyBody::Streamed(_) | ReplyBody::Relayed(_) | ReplyBody::Empty => {
            return Err(broken().into());
        }
    };
    let answer = read_answer(&state.gateway, caller.principal.caller_id(), text).await?;
    answer.map_err(|error| {
        let problem = describe_failure(status, &error).challenge(challenge);
        let problem = match (find_failed(state, caller, (method, target), &error), problem.kind()) {
            (Some(slug), Some(_)) => name_integration(state, caller, problem, &slug),
            _ => problem,
        };
        CallError { problem, error: Some(error) }
    })
}

/// Returns the slug of the failed server: the server that the gateway names, or, for a server's own
/// error, the server of the request's target.
fn find_failed(
    state: &ApiState,
    caller: &Caller,
    (method, target): (Method, Option<String>),
    error: &Value,
) -> Option<String> {
    if let Some(Value::String(slug)) = error.pointer("/data/upstream") {
        return Some(slug.clone());
    }
    let (server, _) = state.gateway.find_target(&caller.principal, method, &target?)?;
    Some(server.slug().to_owned())
}

/// Adds the failed server to a problem: an integration of the caller's organisation by name and id,
/// other servers by slug.
fn name_integration(state: &ApiState, caller: &Caller, problem: Problem, slug: &str) -> Problem {
    let problem = problem.with("integrationName", slug.into());
    let Some(registry) = state.operations.registry() else { return problem };
    if state.gateway.has_shared(slug) {
        return problem;
    }
    let snapshot = registry.snapshot(caller.organisation());
    let mut integrations = snapshot.integrations.iter();
    let found = integrations.find(|integration| *integration.slug == *slug);
    let Some(found) = found else { return problem };
    let problem = problem.with("integrationId", (*found.id).into());
    problem.with("integrationName", (*found.name).into())
}

/// Returns the target of a request, such as a tool's name, if its method has one.
fn read_target(method: Method, params: &Params) -> Option<String> {
    let target = params.get(method.target()?.as_str())?;
    json::from_str(target.get()).ok()
}

/// Returns the last message of a stream, the response. Earlier ones are for readers of messages.
async fn take_answer(mut events: Events, messages: Option<&CallMessages>) -> Text {
    let mut last = Text::default();
    while let Some(event) = events.next().await {
        if event.data.is_empty() {
            continue;
        }
        if let (Some(messages), Text::Whole(text)) = (messages, &event.data) {
            messages.add(text);
        }
        last = event.data;
    }
    last
}

/// Converts a JSON-RPC error and its status to a problem.
pub(crate) fn describe_failure(status: StatusCode, error: &Value) -> Problem {
    let code = error["code"].as_i64().unwrap_or(code::INTERNAL);
    let message = error["message"].as_str().unwrap_or("the call failed");
    let data = error.get("data");
    let problem = match (read_text(data, "upstream"), read_text(data, "reason")) {
        // A server that keeps failing is not called for a while.
        (Some(_), Some("unavailable")) if is_left_alone(data) => {
            describe_server("unavailable", StatusCode::SERVICE_UNAVAILABLE, message)
        }
        (Some(_), Some(reason)) => describe_server(reason, status_of(reason), message),
        _ => describe_request(status, code, message, error),
    };
    match read_wait(data) {
        Some(wait) => problem.retry_after(wait.div_ceil(1000)),
        None => problem,
    }
}

fn read_text<'a>(data: Option<&'a Value>, name: &str) -> Option<&'a str> {
    data?.get(name)?.as_str()
}

/// Returns the retry delay in milliseconds.
fn read_wait(data: Option<&Value>) -> Option<u64> {
    data?.get("retryAfterMs")?.as_u64()
}

/// Returns whether a connected server is not called for a while.
fn is_left_alone(data: Option<&Value>) -> bool {
    let Some(data) = data else { return false };
    data.get("retryAfterMs").is_some() && data.get("state").is_none()
}

fn status_of(reason: &str) -> StatusCode {
    match reason {
        "timeout" | "stalled" => StatusCode::GATEWAY_TIMEOUT,
        "client_connections" | "gateway_overloaded" | "memory" | "overloaded" | "shutdown" => {
            StatusCode::SERVICE_UNAVAILABLE
        }
        _ => StatusCode::BAD_GATEWAY,
    }
}

/// Describes the failure of a server to respond correctly.
fn describe_server(reason: &str, status: StatusCode, message: &str) -> Problem {
    let kind = classify_failure(reason);
    Problem::new(status, "SERVER_FAILED", message.to_owned())
        .of_kind(kind.as_str())
        .with("reason", reason.into())
}

/// Describes a refused request, or the error of a server's tool.
fn describe_request(status: StatusCode, code: i64, message: &str, error: &Value) -> Problem {
    let message = message.to_owned();
    if message.starts_with("unknown ") || message == "resource not found" {
        return Problem::new(StatusCode::NOT_FOUND, "NOT_FOUND", message);
    }
    match code {
        code::INVALID_PARAMS => {
            Problem::new(StatusCode::BAD_REQUEST, "INVALID_PARAMS", message).of_kind("validation")
        }
        code::INVALID_REQUEST if status == StatusCode::BAD_REQUEST => {
            Problem::new(status, "INVALID_REQUEST", message).of_kind("validation")
        }
        code::METHOD_NOT_FOUND => Problem::new(StatusCode::NOT_FOUND, "METHOD_NOT_FOUND", message),
        code::MISSING_CAPABILITY => {
            let code = "CLIENT_IS_ASKED";
            Problem::new(StatusCode::PRECONDITION_REQUIRED, code, message)
                .with("mcp", error.clone())
        }
        code::LIMITED => Problem::new(StatusCode::TOO_MANY_REQUESTS, "RATE_LIMITED", message),
        code::OVERLOADED => Problem::new(StatusCode::SERVICE_UNAVAILABLE, "OVERLOADED", message),
        code::TOO_LARGE => Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "TOO_LARGE", message),
        code::UNAUTHENTICATED => Problem::new(StatusCode::UNAUTHORIZED, "UNAUTHENTICATED", message),
        code::FORBIDDEN => Problem::new(StatusCode::FORBIDDEN, "FORBIDDEN", message),
        _ if status == StatusCode::SERVICE_UNAVAILABLE => {
            Problem::new(status, "OVERLOADED", message)
        }
        _ => Problem::new(StatusCode::BAD_GATEWAY, "SERVER_ERROR", message)
            .of_kind("execution")
            .with("mcp", error.clone()),
    }
}

pub(crate) async fn call_method(
    by: By<User>,
    Path(method): Path<String>,
    origin: CallOrigin,
    Body(params): Body<Params>,
) -> Result<CallResult> {
    let known = Method::parse(&method);
    let is_request = known.exists_in(Era::Modern) && known.as_str() == method;
    if !is_request || known == Method::Listen || method.starts_with("notifications/") {
        let detail = "there is no such method here; for changes use GET /api/events";
        return Err(Problem::new(StatusCode::NOT_FOUND, "METHOD_NOT_FOUND", detail));
    }
    if params.contains_key("_meta") {
        return Err(Problem::in_body("/_meta", "omit it: the gateway sets its own"));
    }
    call(&by, &origin, known, params).await
}

// Progress and log messages of a running call, for a reader in this process.

/// Maximum number of log messages kept for a call; the oldest are dropped.
const MAX_LINES: usize = 50;
/// Maximum length of the text of a message, in characters; the rest is cut off.
const MAX_TEXT: usize = 1_000;
/// Maximum size of a message that is read, in bytes.
const MAX_MESSAGE: usize = 64 * 1024;

/// The messages of a call so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct MessageLog {
    pub(crate) progress: Option<CallProgress>,
    pub(crate) lines: VecDeque<LogLine>,
    /// The number of dropped log messages.
    pub(crate) dropped: usize,
    pub(crate) has_ended: bool,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct CallProgress {
    pub(crate) progress: f64,
    pub(crate) total: Option<f64>,
    pub(crate) message: String,
}

#[derive(Clone, Debug)]
pub(crate) struct LogLine {
    pub(crate) level: String,
    pub(crate) text: String,
}

/// The messages of a call: written by the call, and followed by readers.
#[derive(Clone)]
pub(crate) struct CallMessages(watch::Sender<MessageLog>);

#[derive(Deserialize)]
struct Notification {
    method: String,
    params: Value,
}

impl Default for CallMessages {
    fn default() -> Self {
        Self(watch::channel(MessageLog::default()).0)
    }
}

impl CallMessages {
    /// Adds a message of the call's stream; others than progress and log messages are ignored.
    pub(super) fn add(&self, text: &Bytes) {
        if text.len() > MAX_MESSAGE {
            return;
        }
        let Ok(Notification { method, params }) = json::from_slice(text) else { return };
        match Method::parse(&method) {
            Method::Progress => {
                let Ok(mut progress) = serde_json::from_value::<CallProgress>(params) else {
                    return;
                };
                progress.message = shorten(&progress.message);
                self.0.send_modify(|log| log.progress = Some(progress));
            }
            Method::Message => self.0.send_modify(|log| log.add_line(&params)),
            _ => {}
        }
    }

    /// Records that the call has ended.
    pub(crate) fn end(&self) {
        self.0.send_modify(|log| log.has_ended = true);
    }

    pub(crate) fn read(&self) -> MessageLog {
        self.0.borrow().clone()
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<MessageLog> {
        self.0.subscribe()
    }
}

impl MessageLog {
    fn add_line(&mut self, params: &Value) {
        let level = params["level"].as_str().unwrap_or("info").to_owned();
        let text = match &params["data"] {
            Value::String(text) => shorten(text),
            data => shorten(&data.to_string()),
        };
        self.lines.push_back(LogLine { level, text });
        if self.lines.len() > MAX_LINES {
            self.lines.pop_front();
            self.dropped += 1;
        }
    }
}

fn shorten(text: &str) -> String {
    text.chars().take(MAX_TEXT).collect()
}

#[cfg(test)]
mod tests;
