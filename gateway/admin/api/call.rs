//! Requests to the gateway in process: the same message that a client of MCP sends, through the
//! same steps, in the name of whoever called the API. There is no other way from here to a server.

use std::collections::BTreeMap;

use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use lockgate_authn::Peer;
use lockgate_protocol::method::Method;
use lockgate_protocol::modern::{METHOD_HEADER, NAME_HEADER, VERSION_HEADER};
use lockgate_protocol::revision::Revision;
use lockgate_protocol::{header, meta};
use lockgate_proxy::transport::{Endpoint, Events, Exchange, ExchangeKind, Reply};
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use super::access::Caller;
use super::failure::describe_failure;
use super::problem::Problem;
use super::state::ApiState;

/// Parameters of a request, each as it was written.
pub(crate) type Params = BTreeMap<String, Box<RawValue>>;

/// What a trace of the caller goes on with.
const TRACE_HEADERS: [HeaderName; 2] =
    [HeaderName::from_static("traceparent"), HeaderName::from_static("tracestate")];

#[derive(Serialize)]
struct Message<'a> {
    jsonrpc: &'a str,
    id: u8,
    method: &'a str,
    params: &'a Params,
}

#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    result: Option<Box<RawValue>>,
    #[serde(default)]
    error: Option<Value>,
}

/// A result of MCP, as the gateway wrote it.
pub(crate) struct CallResult(pub(crate) Box<RawValue>);

impl IntoResponse for CallResult {
    fn into_response(self) -> Response {
        let head = [(CONTENT_TYPE, "application/json"), (CACHE_CONTROL, "no-store")];
        let text: Box<str> = self.0.into();
        (head, String::from(text)).into_response()
    }
}

/// A value as a parameter.
pub(crate) fn param(value: &Value) -> Result<Box<RawValue>, Problem> {
    to_raw_value(value).map_err(|_| broken())
}

/// Sends one request in the name of a caller. Dropping the future cancels it.
///
/// # Errors
/// What the gateway, or the server, answered instead of a result.
pub(crate) async fn call(
    state: &ApiState,
    caller: &Caller,
    sent: &HeaderMap,
    method: Method,
    mut params: Params,
) -> Result<CallResult, Problem> {
    let headers = write_headers(sent, method, &params)?;
    let revision = Revision::NEWEST_MODERN.as_str();
    let own = json!({meta::PROTOCOL_VERSION: revision, meta::CLIENT_CAPABILITIES: {}});
    params.insert("_meta".to_owned(), param(&own)?);
    let message = Message { jsonrpc: "2.0", id: 1, method: method.as_str(), params: &params };
    let message = serde_json::to_vec(&message).map_err(|_| broken())?;
    let exchange = Exchange {
        endpoint: Endpoint::All,
        // No header repeats what is in the body.
        peer: Peer::Stdio,
        principal: caller.principal.clone(),
        kind: ExchangeKind::Post(message.into()),
        headers,
        takes_streamed_body: false,
    };
    let (status, text) = match state.gateway.receive(exchange).await {
        Reply::Message { status, body, .. } => (status, body.into_bytes()),
        Reply::Stream { events, .. } => (StatusCode::OK, take_answer(events).await),
        Reply::StreamedMessage { .. } | Reply::Empty { .. } => return Err(broken()),
    };
    let answer: Answer = serde_json::from_slice(&text).map_err(|_| broken())?;
    match (answer.result, answer.error) {
        (Some(result), _) => Ok(CallResult(result)),
        (None, Some(error)) => Err(describe_failure(status, &error)),
        (None, None) => Err(broken()),
    }
}

fn write_headers(sent: &HeaderMap, method: Method, params: &Params) -> Result<HeaderMap, Problem> {
    let mut headers = HeaderMap::new();
    let revision = Revision::NEWEST_MODERN.as_str();
    headers.insert(VERSION_HEADER, HeaderValue::from_static(revision));
    headers.insert(METHOD_HEADER, HeaderValue::from_static(method.as_str()));
    for name in TRACE_HEADERS {
        if let Some(value) = sent.get(&name) {
            headers.insert(name, value.clone());
        }
    }
    let target = method.target().and_then(|key| params.get(key));
    let name = target.and_then(|raw| serde_json::from_str::<String>(raw.get()).ok());
    if let Some(name) = name {
        let value = HeaderValue::from_str(&header::encode_value(&name));
        headers.insert(NAME_HEADER, value.map_err(|_| broken())?);
    }
    Ok(headers)
}

/// The last message of a stream is the answer; those before it are for clients that can use them.
async fn take_answer(mut events: Events) -> axum::body::Bytes {
    let mut last = axum::body::Bytes::new();
    while let Some(event) = events.next().await {
        if !event.data.is_empty() {
            last = event.data.into_bytes();
        }
    }
    last
}

fn broken() -> Problem {
    let detail = "the gateway gave no answer that can be read; the log says more";
    Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "INTERNAL", detail)
}
