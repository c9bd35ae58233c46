//! Subscriptions as server-sent events (trpc: stream/sse.ts): `connected` first, then values with
//! ids for resumption, `ping` in between, and `serialized-error` if the stream ends with an error.
//! Refusals have status 200 as well, because an `EventSource` exposes no body with any other
//! status.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, VARY};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::Response;
use futures_util::StreamExt;
use futures_util::stream::{iter, once, unfold};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::answer::{fail, shape};
use super::run::read_text;
use crate::api::access::Caller;
use crate::api::events::{Follower, ReaderEvent};
use crate::api::problem::Problem;
use crate::api::state::ApiState;

/// Interval of pings on a silent stream.
const PING_INTERVAL: Duration = Duration::from_secs(15);
/// Silence after which a client reconnects, in milliseconds.
const RECONNECT_AFTER_MS: u64 = 45_000;

/// Opens the event stream, filtered by kind if the input has `types`. Fails if the caller has
/// reached its limit of streams.
pub(crate) fn follow_events(
    state: Arc<ApiState>,
    caller: &Caller,
    input: &serde_json::Map<String, Value>,
    path: &str,
) -> Result<Response, Problem> {
    let last = read_text(input, "lastEventId");
    let follower = Follower::new(state, caller.clone(), last)?;
    let kinds = match input.get("types") {
        Some(Value::Array(kinds)) => Some(kinds.clone()),
        _ => None,
    };
    let stream = EventStream { follower, kinds, path: path.to_owned(), has_ended: false };
    let events = unfold(stream, |mut stream| async move {
        let text = stream.next_text().await?;
        Some((text, stream))
    });
    Ok(respond(once(async { connected() }).chain(events)))
}

/// Returns the stream of a refused subscription.
pub(crate) fn refuse(failure: &Problem, path: Option<&str>) -> Response {
    respond(iter([connected(), describe_error(failure, path)]))
}

struct EventStream {
    follower: Follower,
    kinds: Option<Vec<Value>>,
    path: String,
    has_ended: bool,
}

impl EventStream {
    /// Returns the next event as text. After a stream without an error, the client reconnects.
    async fn next_text(&mut self) -> Option<String> {
        if self.has_ended {
            return None;
        }
        loop {
            let Ok(told) = timeout(PING_INTERVAL, self.follower.next()).await else {
                return Some("event: ping\ndata: \n\n".to_owned());
            };
            let (id, kind, data) = match told {
                ReaderEvent::Told { id, kind, data } => (id, kind, data),
                ReaderEvent::Stopping => return None,
                ReaderEvent::Revoked => {
                    self.has_ended = true;
                    let status = StatusCode::UNAUTHORIZED;
                    let failure = fail(status, "the credential is no longer valid");
                    return Some(describe_error(&failure, Some(&self.path)));
                }
            };
            let member = match kind {
                "decided" | "approvals" | "connection" => continue,
                "registered" | "unregistered" => "tool",
                "executed" => "call",
                kind => kind,
            };
            let mut value = json!({"type": kind});
            if let Some(data) = data {
                value[member] = data;
            }
            if self.wants(kind) {
                return Some(format!("data: {value}\nid: {id}\n\n"));
            }
        }
    }

    /// Returns whether the client has subscribed to a kind. `missed` is always sent.
    fn wants(&self, kind: &str) -> bool {
        let Some(kinds) = &self.kinds else { return true };
        kind == "missed" || kinds.iter().any(|wanted| wanted == kind)
    }
}

fn connected() -> String {
    format!("event: connected\ndata: {{\"reconnectAfterInactivityMs\":{RECONNECT_AFTER_MS}}}\n\n")
}

fn describe_error(failure: &Problem, path: Option<&str>) -> String {
    format!("event: serialized-error\ndata: {}\n\n", shape(failure, path))
}

fn respond(events: impl futures_util::Stream<Item = String> + Send + 'static) -> Response {
    let events = events.map(|text| Ok::<_, Infallible>(Bytes::from(text)));
    let mut response = Response::new(Body::from_stream(events));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    headers.insert(VARY, HeaderValue::from_static("trpc-accept, accept"));
    let buffering = HeaderName::from_static("x-accel-buffering");
    headers.insert(buffering, HeaderValue::from_static("no"));
    response
}
