//! Responses of the API in the budget of bytes in flight: each counts until its last part is
//! written, and becomes a 503 if there is no memory for it, unless it is that of a creation.
//! Responses of the request path are parsed without a tree, large ones on a separate thread.

use std::borrow::Cow;
use std::sync::Arc;

use axum::body::{Body, Bytes, HttpBody, to_bytes};
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use lockgate_admission::CallerId;
use lockgate_admission::budget::{DROPPED, MAX_MEDIUM_MESSAGE};
use lockgate_admission::reader::Reader;
use lockgate_proxy::Gateway;
use lockgate_proxy::transport::Text;
use lockgate_text::json;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::problem::{Problem, Result};
use super::state::ApiState;

/// Larger responses are parsed on a separate thread (bytes).
const LARGE_RESPONSE: usize = 1 << 20;
/// Estimated bytes of a value in a tree.
const NODE_BYTES: usize = 64;
/// Retry delay after a lack of memory, in seconds.
const RETRY_SECONDS: u64 = 1;

/// An MCP result, as the gateway wrote it.
pub(crate) struct CallResult {
    /// Counts against the budget of bytes in flight until dropped.
    pub(crate) text: Bytes,
    /// The tool's questions to the caller.
    pub(crate) input_requests: Option<Value>,
}

/// The response of the request path: a result, or a JSON-RPC error.
pub(crate) type GatewayAnswer = Result<CallResult, Value>;

/// Marks a response that counts against the budget already.
#[derive(Clone, Copy)]
pub(crate) struct CountsItself;

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow, default)]
    result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Outcome<'a> {
    #[serde(borrow, default)]
    result_type: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    input_requests: Option<&'a RawValue>,
}

/// The members that are kept of an oversized error.
#[derive(Deserialize)]
struct ShortError<'a> {
    code: i64,
    #[serde(borrow)]
    message: Cow<'a, str>,
}

/// Parses the response to a request of this caller ([`lockgate_authn::Principal::caller_id`]).
/// Fails if the response is invalid, or if there is no memory for it.
pub(crate) async fn read_answer(
    gateway: &Gateway,
    caller: CallerId,
    text: Text,
) -> Result<GatewayAnswer> {
    let length = text.len();
    let text = count(gateway, length, || text.into_bytes()).await?;
    let read = if length <= LARGE_RESPONSE {
        parse(&text)
    } else {
        let Ok(turn) = gateway.cpu_pool().turn(caller).await else { return Err(no_memory()) };
        turn.run(move || parse(&text)).await
    };
    read.ok_or_else(broken)
}

fn parse(text: &Bytes) -> Option<GatewayAnswer> {
    let envelope: Envelope<'_> = json::from_slice(text).ok()?;
    let Some(result) = envelope.result else {
        return Some(Err(parse_error(envelope.error?)?));
    };
    let mut input_requests = None;
    if let Ok(outcome) = json::from_str::<Outcome<'_>>(result.get())
        && outcome.result_type.as_deref() == Some("input_required")
    {
        input_requests = match outcome.input_requests {
            Some(asked) => Some(json::from_str(asked.get()).unwrap_or(Value::Null)),
            None => Some(Value::Null),
        };
    }
    Some(Ok(CallResult { text: text.slice_ref(result.get().as_bytes()), input_requests }))
}

fn parse_error(error: &RawValue) -> Option<Value> {
    if error.get().len() <= MAX_MEDIUM_MESSAGE {
        return json::from_str(error.get()).ok();
    }
    let short: ShortError<'_> = json::from_str(error.get()).ok()?;
    let message: String = short.message.chars().take(MAX_MEDIUM_MESSAGE).collect();
    Some(serde_json::json!({"code": short.code, "message": message}))
}

/// Creates a text of this length, which counts against the budget until dropped. Fails before
/// `make` is called if there is no memory.
pub(crate) async fn count(
    gateway: &Gateway,
    length: usize,
    make: impl FnOnce() -> Bytes,
) -> Result<Bytes> {
    let mut reader = Reader::new(gateway.budget());
    reader.hold(length).await.map(|()| reader.finish(make(), 0)).map_err(|_| no_memory())
}

/// Returns an upper bound on the size of a text's tree in bytes.
pub(crate) fn estimate_tree(text: &[u8]) -> usize {
    let values = text.iter().filter(|byte| b",[{:".contains(byte)).count();
    text.len().saturating_add(values.saturating_mul(NODE_BYTES))
}

/// Counts responses against the budget, except streams and those that count already.
pub(crate) async fn count_answer(
    state: State<Arc<ApiState>>,
    request: Request,
    next: Next,
) -> Response {
    let response = next.run(request).await;
    let Some(length) = response.body().size_hint().exact() else { return response };
    if response.extensions().get::<CountsItself>().is_some() {
        return response;
    }
    let (parts, body) = response.into_parts();
    // The body is in memory already.
    let Ok(text) = to_bytes(body, usize::MAX).await else { return broken().into_response() };
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    match count(&state.gateway, length, || text.clone()).await {
        Ok(text) => Response::from_parts(parts, Body::from(text)),
        // The object exists, and its key may be in no other response.
        Err(_) if matches!(parts.status, StatusCode::CREATED | StatusCode::ACCEPTED) => {
            Response::from_parts(parts, Body::from(text))
        }
        Err(problem) => problem.into_response(),
    }
}

fn no_memory() -> Problem {
    Problem::overloaded(DROPPED, RETRY_SECONDS)
}

pub(crate) fn broken() -> Problem {
    let detail = "the gateway's response cannot be read; see the gateway's log";
    Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "INTERNAL", detail)
}
