//! Responses in the formats of tRPC's clients (trpc: http/resolveResponse.ts, stream/jsonl.ts): an
//! object, the array of a batch, or the lines of a batch in the order of completion.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, VARY};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::Response;
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, iter, once, unfold};
use serde_json::json;
use tokio::time::timeout;

use super::failure::TrpcError;

/// Interval of blanks on a silent response, which detect a disconnected client.
const PING_INTERVAL: Duration = Duration::from_secs(1);

/// Pieces up to this size are joined or scanned in one step, in bytes.
const MAX_SLICE: usize = 64 << 10;

/// The result of a call: a value as JSON, which counts against the budget of bytes in flight, or
/// `undefined`.
pub(crate) type Outcome = Result<Option<Bytes>, TrpcError>;

pub(crate) struct Answered {
    pub(crate) path: String,
    pub(crate) outcome: Outcome,
}

impl Answered {
    fn status(&self) -> StatusCode {
        match &self.outcome {
            Ok(_) => StatusCode::OK,
            Err(failure) => failure.http_status(),
        }
    }

    /// Returns the envelope of the call, in pieces. The value is not copied.
    fn write(&self) -> Vec<Bytes> {
        match &self.outcome {
            Ok(Some(data)) => vec![
                Bytes::from_static(b"{\"result\":{\"data\":"),
                data.clone(),
                Bytes::from_static(b"}}"),
            ],
            Ok(None) => vec![Bytes::from_static(b"{\"result\":{}}")],
            Err(failure) => {
                let error = json!({"error": failure.shape(Some(&self.path))});
                vec![error.to_string().into()]
            }
        }
    }

    fn copy_headers(&self, headers: &mut HeaderMap) {
        if let Err(failure) = &self.outcome {
            headers.extend(failure.headers().clone());
        }
    }
}

/// Joins pieces to a body: small ones into one buffer, large ones uncopied as a stream.
fn join(pieces: Vec<Bytes>) -> Body {
    let length: usize = pieces.iter().map(Bytes::len).sum();
    if length <= MAX_SLICE {
        return Body::from(pieces.concat());
    }
    Body::from_stream(iter(pieces.into_iter().map(Ok::<_, Infallible>)))
}

type Pieces = Box<dyn Iterator<Item = Bytes> + Send>;

/// A piece with line breaks replaced lazily: valid JSON has them only between values.
struct OneLine(Bytes);

impl Iterator for OneLine {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        if self.0.is_empty() {
            return None;
        }
        let slice = self.0.split_to(self.0.len().min(MAX_SLICE));
        if !slice.iter().any(|byte| matches!(byte, b'\n' | b'\r')) {
            return Some(slice);
        }
        let mut line = slice.to_vec();
        for byte in &mut line {
            if matches!(byte, b'\n' | b'\r') {
                *byte = b' ';
            }
        }
        Some(line.into())
    }
}

/// Returns the response to a request that is invalid as a whole.
pub(crate) fn refuse(failure: &TrpcError) -> Response {
    let text = json!({"error": failure.shape(None)}).to_string();
    respond(failure.http_status(), failure.headers().clone(), Body::from(text))
}

pub(crate) fn answer_one(answered: &Answered) -> Response {
    let mut headers = HeaderMap::new();
    answered.copy_headers(&mut headers);
    respond(answered.status(), headers, join(answered.write()))
}

/// Returns the response to a batch, with status 207 if the calls differ in status.
pub(crate) fn answer_batch(all: &[Answered]) -> Response {
    let mut headers = HeaderMap::new();
    let mut pieces = vec![Bytes::from_static(b"[")];
    let mut status = all.first().map_or(StatusCode::OK, |first| first.status());
    for answered in all {
        if answered.status() != status {
            status = StatusCode::MULTI_STATUS;
        }
        answered.copy_headers(&mut headers);
        if pieces.len() > 1 {
            pieces.push(Bytes::from_static(b","));
        }
        pieces.extend(answered.write());
    }
    pieces.push(Bytes::from_static(b"]"));
    respond(status, headers, join(pieces))
}

/// Returns the response to a batch as lines: a head that announces each call, then the calls in the
/// order of completion. Dropping the body cancels unfinished calls.
pub(crate) fn answer_lines(calls: Vec<BoxFuture<'static, Answered>>) -> Response {
    let mut head = json!({});
    let running = FuturesUnordered::new();
    for (at, call) in calls.into_iter().enumerate() {
        head[at.to_string()] = json!([[0], [null, 0, at]]);
        running.push(async move { (at, call.await) });
    }
    let head = once(async move { Bytes::from(format!("{head}\n")) });
    let lines = unfold(running, |mut running| async move {
        let line = match timeout(PING_INTERVAL, running.next()).await {
            Ok(answered) => {
                let (at, answered): (usize, Answered) = answered?;
                write_line(at, &answered)
            }
            Err(_) => Box::new([Bytes::from_static(b" ")].into_iter()),
        };
        Some((iter(line), running))
    });
    let lines = head.chain(lines.flatten());
    let lines = lines.map(Ok::<_, Infallible>);
    respond(StatusCode::OK, HeaderMap::new(), Body::from_stream(lines))
}

/// Returns the line of a call, in pieces that are created lazily.
fn write_line(at: usize, answered: &Answered) -> Pieces {
    let start = Bytes::from(format!("[{at},0,[["));
    let data = answered.write().into_iter().flat_map(OneLine);
    Box::new([start].into_iter().chain(data).chain([Bytes::from_static(b"]]]\n")]))
}

fn respond(status: StatusCode, headers: HeaderMap, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let own = response.headers_mut();
    own.extend(headers);
    own.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    own.insert(VARY, HeaderValue::from_static("trpc-accept, accept"));
    own.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
