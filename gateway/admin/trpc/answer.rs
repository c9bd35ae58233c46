//! Responses in the formats of tRPC's clients (trpc: http/resolveResponse.ts, stream/jsonl.ts): an
//! object, the array of a batch, or the lines of a batch in the order of completion.

use std::borrow::Cow;
use std::convert::Infallible;
use std::iter::from_fn;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, VARY};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::Response;
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, iter, once, unfold};
use lockgate_protocol::code;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::api::call::CallError;
use crate::api::problem::Problem;

/// Interval of blanks on a silent response, which detect a disconnected client.
const PING_INTERVAL: Duration = Duration::from_secs(1);

/// Pieces up to this size are joined or scanned in one step, in bytes.
const MAX_SLICE: usize = 64 << 10;

/// The result of a call: a value as JSON, which counts against the budget of bytes in flight, or
/// `undefined`.
pub(crate) type Outcome = Result<Option<Bytes>, Problem>;

pub(crate) struct Answered {
    pub(crate) path: String,
    pub(crate) outcome: Outcome,
}

impl Answered {
    fn status(&self) -> StatusCode {
        match &self.outcome {
            Ok(_) => StatusCode::OK,
            Err(failure) => failure.status(),
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
                let error = json!({"error": shape(failure, Some(&self.path))});
                vec![error.to_string().into()]
            }
        }
    }

    fn copy_headers(&self, headers: &mut HeaderMap) {
        if let Err(failure) = &self.outcome {
            failure.write_headers(headers);
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

/// Returns a piece with line breaks replaced lazily: valid JSON has them only between values.
fn in_one_line(mut piece: Bytes) -> impl Iterator<Item = Bytes> {
    from_fn(move || {
        let slice = piece.split_to(piece.len().min(MAX_SLICE));
        if !slice.iter().any(|byte| matches!(byte, b'\n' | b'\r')) {
            return (!slice.is_empty()).then_some(slice);
        }
        let line =
            slice.iter().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte });
        Some(line.collect())
    })
}

/// Returns the response to a request that is invalid as a whole.
pub(crate) fn refuse(failure: &Problem) -> Response {
    let text = json!({"error": shape(failure, None)}).to_string();
    let mut headers = HeaderMap::new();
    failure.write_headers(&mut headers);
    respond(failure.status(), headers, Body::from(text))
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
    let data = answered.write().into_iter().flat_map(in_one_line);
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

// Problems in tRPC's format (trpc: error/formatter.ts): a message, the number of the code, and
// `data`, which the gateway extends for programs.

/// Creates an error of this interface.
pub(crate) fn fail(status: StatusCode, words: impl Into<Cow<'static, str>>) -> Problem {
    Problem::new(status, find_code(status).0, words)
}

pub(crate) fn bad_request(words: impl Into<Cow<'static, str>>) -> Problem {
    fail(StatusCode::BAD_REQUEST, words)
}

/// Returns the error object. `path` is the procedure, or `None` if the whole request is invalid.
pub(crate) fn shape(problem: &Problem, path: Option<&str>) -> Value {
    let status = problem.status();
    let (key, number) = find_code(status);
    let mut data = json!({"code": key, "httpStatus": status.as_u16()});
    if let Some(kind) = problem.kind() {
        data["type"] = kind.into();
    }
    if let Some(seconds) = problem.wait() {
        data["retryAfter"] = seconds.into();
    }
    for (name, value) in problem.members() {
        data[name] = value.clone();
    }
    if let Some(path) = path {
        data["path"] = path.into();
    }
    json!({"message": problem.detail(), "code": number, "data": data})
}

/// Converts the error of a call, with the members that tRPC's clients receive.
pub(crate) fn describe_call(error: CallError) -> Problem {
    let named = error.problem.member("integrationName").cloned();
    let mut failure = error.problem.without_members();
    let Some(given) = error.error else { return failure };
    if let Some(name) = named {
        failure = failure.with("server", name);
    }
    if let Some(data) = given.get("data") {
        for (name, member) in [("reason", "reason"), ("rule", "rule"), ("server", "upstream")] {
            if let Some(value) = data.get(member) {
                failure = failure.with(name, value.clone());
            }
        }
    }
    let is_about_arguments = given["code"] == code::INVALID_PARAMS;
    if is_about_arguments && find_code(failure.status()).0 == "BAD_REQUEST" {
        let message = &given["message"];
        let issue = json!({"code": "custom", "path": ["arguments"], "message": message});
        failure = failure.with("issues", json!([issue]));
    }
    failure.with("mcp", given)
}

/// The names of codes, and their numbers, which several codes share, by status.
const CODES: [(u16, &str, i32); 16] = [
    (400, "BAD_REQUEST", -32600),
    (401, "UNAUTHORIZED", -32001),
    (403, "FORBIDDEN", -32003),
    (404, "NOT_FOUND", -32004),
    (405, "METHOD_NOT_SUPPORTED", -32005),
    (408, "TIMEOUT", -32008),
    (409, "CONFLICT", -32009),
    (412, "PRECONDITION_FAILED", -32012),
    (413, "PAYLOAD_TOO_LARGE", -32013),
    (415, "UNSUPPORTED_MEDIA_TYPE", -32015),
    (428, "PRECONDITION_REQUIRED", -32028),
    (429, "TOO_MANY_REQUESTS", -32029),
    (500, "INTERNAL_SERVER_ERROR", -32603),
    (502, "BAD_GATEWAY", -32603),
    (503, "SERVICE_UNAVAILABLE", -32603),
    (504, "GATEWAY_TIMEOUT", -32603),
];

/// Returns the code of a status, or the nearest code if there is none.
fn find_code(status: StatusCode) -> (&'static str, i32) {
    let nearest = match status {
        StatusCode::URI_TOO_LONG => 413,
        _ if status.is_client_error() => 400,
        _ => 500,
    };
    let known = CODES.iter().find(|(known, ..)| *known == status);
    let found = known.or_else(|| CODES.iter().find(|(known, ..)| *known == nearest));
    found.map_or(("INTERNAL_SERVER_ERROR", -32603), |(_, key, number)| (*key, *number))
}
