//! Answers in the forms that tRPC's clients read (trpc: http/resolveResponse.ts, stream/jsonl.ts):
//! one object, an array of a batch, or a line for each call of a batch as it ends.

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

/// Between two blanks on a silent answer, which find out whether its client is still there.
const PING: Duration = Duration::from_secs(1);

/// Pieces up to this size are put together, or looked at, at once.
const SLICE: usize = 64 << 10;

/// What a call gave: a value as JSON, which counts in the account of bytes in flight, or
/// `undefined`.
pub(crate) type Outcome = Result<Option<Bytes>, TrpcError>;

/// One call of a request with what it gave.
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

    /// The envelope of the call, in pieces. A value is not copied.
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

/// Pieces as one body: small ones together, large ones as they are.
fn join(pieces: Vec<Bytes>) -> Body {
    let length: usize = pieces.iter().map(Bytes::len).sum();
    if length <= SLICE {
        return Body::from(pieces.concat());
    }
    Body::from_stream(iter(pieces.into_iter().map(Ok::<_, Infallible>)))
}

type Pieces = Box<dyn Iterator<Item = Bytes> + Send>;

/// A piece without line breaks, made as it is taken: JSON has them between values alone.
struct OneLine(Bytes);

impl Iterator for OneLine {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        if self.0.is_empty() {
            return None;
        }
        let slice = self.0.split_to(self.0.len().min(SLICE));
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

/// The answer to a request that is wrong as a whole.
pub(crate) fn refuse(failure: &TrpcError) -> Response {
    let text = json!({"error": failure.shape(None)}).to_string();
    respond(failure.http_status(), failure.headers().clone(), Body::from(text))
}

/// The answer to one call.
pub(crate) fn answer_one(answered: &Answered) -> Response {
    let mut headers = HeaderMap::new();
    answered.copy_headers(&mut headers);
    respond(answered.status(), headers, join(answered.write()))
}

/// The answer to a batch: 207 where the calls do not agree on a status.
pub(crate) fn answer_batch(all: &[Answered]) -> Response {
    let mut headers = HeaderMap::new();
    let mut pieces = vec![Bytes::from_static(b"[")];
    let mut status = match all.first() {
        Some(first) => first.status(),
        None => StatusCode::OK,
    };
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

/// The answer to a batch, line by line: a head that promises each call, then the calls as they end.
/// Dropping the body cancels those that have not.
pub(crate) fn answer_lines(calls: Vec<BoxFuture<'static, Answered>>) -> Response {
    let mut head = json!({});
    let running = FuturesUnordered::new();
    for (at, call) in calls.into_iter().enumerate() {
        head[at.to_string()] = json!([[0], [null, 0, at]]);
        running.push(async move { (at, call.await) });
    }
    let head = once(async move { Bytes::from(format!("{head}\n")) });
    let lines = unfold(running, |mut running| async move {
        let line = match timeout(PING, running.next()).await {
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

/// The line of one call, in pieces that are made as they are taken.
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
