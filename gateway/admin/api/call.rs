//! In-process requests to the gateway: the same message that an MCP client sends, through the same
//! steps, on behalf of the API's caller. The API has no other way to a server.

use std::collections::BTreeMap;
use std::convert::Infallible;

use axum::Extension;
use axum::body::Bytes;
use axum::extract::FromRequestParts;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, WWW_AUTHENTICATE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue};
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use lockgate_authn::Peer;
use lockgate_protocol::method::Method;
use lockgate_protocol::modern::{METHOD_HEADER, NAME_HEADER, VERSION_HEADER};
use lockgate_protocol::revision::Revision;
use lockgate_protocol::{header, meta};
use lockgate_proxy::transport::{
    Endpoint, Events, Exchange, ExchangeKind, ReplyBody, Text, Transport,
};
use lockgate_upstream::LogLevel;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use super::access::Caller;
use super::answer::{CountsItself, GatewayAnswer, broken, read_answer};
use super::call_messages::CallMessages;
use super::failure::describe_failure;
use super::problem::Problem;
use super::state::ApiState;

/// Parameters of a request, each as it was written.
pub(crate) type Params = BTreeMap<String, Box<RawValue>>;

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

/// An MCP result, as the gateway wrote it.
pub(crate) struct CallResult {
    /// Counts against the budget of bytes in flight until dropped.
    pub(crate) text: Bytes,
    /// The tool's questions to the caller.
    pub(crate) input_requests: Option<Value>,
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

pub(crate) fn param(value: &Value) -> Result<Box<RawValue>, Problem> {
    to_raw_value(value).map_err(|_| broken())
}

/// Sends a request of the REST API. Dropping the future cancels the request.
pub(crate) async fn call(
    state: &ApiState,
    caller: &Caller,
    origin: &CallOrigin,
    method: Method,
    params: Params,
) -> Result<CallResult, Problem> {
    let answer = send(state, caller, origin, Transport::Rest, method, params).await;
    answer.map_err(|error| error.problem)
}

/// Sends a request on behalf of a caller. Dropping the future cancels the request.
pub(crate) async fn send(
    state: &ApiState,
    caller: &Caller,
    origin: &CallOrigin,
    transport: Transport,
    method: Method,
    mut params: Params,
) -> Result<CallResult, CallError> {
    let target = read_target(method, &params);
    let headers = write_headers(&origin.headers, method, target.as_deref())?;
    let revision = Revision::NEWEST_MODERN.as_str();
    let mut own = json!({meta::PROTOCOL_VERSION: revision, meta::CLIENT_CAPABILITIES: {}});
    if origin.messages.is_some() {
        own[meta::PROGRESS_TOKEN] = 1.into();
        own[meta::LOG_LEVEL] = LogLevel::Info.as_str().into();
    }
    params.insert("_meta".to_owned(), param(&own)?);
    let message = Message { jsonrpc: "2.0", id: 1, method: method.as_str(), params: &params };
    let Ok(message) = serde_json::to_vec(&message) else { return Err(broken().into()) };
    let exchange = Exchange {
        endpoint: Endpoint::All,
        transport,
        // Like stdio, the request has no headers for the tool's parameters.
        peer: Peer::Stdio,
        credentials: None,
        principal: caller.principal.clone(),
        kind: ExchangeKind::Post(message.into()),
        headers,
        takes_streamed_body: false,
    };
    let reply = state.gateway.receive_boxed(&exchange).await;
    let challenge = reply.header(&WWW_AUTHENTICATE).cloned();
    let status = reply.status;
    let text = match reply.body {
        ReplyBody::Message(text) => text,
        ReplyBody::Events(events) => take_answer(events, origin.messages.as_ref()).await,
        ReplyBody::Streamed(_) | ReplyBody::Relayed(_) | ReplyBody::Empty => {
            return Err(broken().into());
        }
    };
    match read_answer(&state.gateway, caller.principal.caller_id(), text).await? {
        GatewayAnswer::Result { text, input_requests } => Ok(CallResult { text, input_requests }),
        GatewayAnswer::Error(error) => {
            let problem = describe_failure(status, &error).challenge(challenge);
            let problem =
                match (find_failed(state, caller, (method, target), &error), problem.kind()) {
                    (Some(slug), Some(_)) => name_integration(state, caller, problem, &slug),
                    _ => problem,
                };
            Err(CallError { problem, error: Some(error) })
        }
    }
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
    match integrations.find(|integration| *integration.slug == *slug) {
        Some(found) => {
            let problem = problem.with("integrationId", (*found.id).into());
            problem.with("integrationName", (*found.name).into())
        }
        None => problem,
    }
}

fn write_headers(
    sent: &HeaderMap,
    method: Method,
    target: Option<&str>,
) -> Result<HeaderMap, Problem> {
    let mut headers = HeaderMap::new();
    let revision = Revision::NEWEST_MODERN.as_str();
    headers.insert(VERSION_HEADER, HeaderValue::from_static(revision));
    headers.insert(METHOD_HEADER, HeaderValue::from_static(method.as_str()));
    for name in TRACE_HEADERS {
        if let Some(value) = sent.get(&name) {
            headers.insert(name, value.clone());
        }
    }
    if let Some(name) = target {
        let value = HeaderValue::from_str(&header::encode_value(name));
        let Ok(value) = value else { return Err(broken()) };
        headers.insert(NAME_HEADER, value);
    }
    Ok(headers)
}

/// Returns the target of a request, such as a tool's name, if its method has one.
fn read_target(method: Method, params: &Params) -> Option<String> {
    let target = params.get(method.target()?)?;
    serde_json::from_str(target.get()).ok()
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
