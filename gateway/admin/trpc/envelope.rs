//! A request as tRPC's clients send it over HTTP (trpc: http/contentType.ts): its procedures,
//! whether it is a batch, the requested response format, and the input of each call. Errors in
//! inputs are returned only by procedures that have an input.

use std::collections::BTreeMap;
use std::str::from_utf8;

use axum::body::Bytes;
use axum::http::header::{ACCEPT, CONTENT_TYPE};
use axum::http::{HeaderMap, Method, Uri};
use lockgate_text::json::Reader;
use lockgate_text::percent;
use serde_json::value::RawValue;

use super::failure::Code;
use super::failure::TrpcError;
use super::procedures::{self, Procedure};
use crate::headers::{is_json, read_header};

/// Maximum number of calls per batch.
pub(crate) const MAX_CALLS: usize = 32;
/// Maximum nesting depth of an input.
const MAX_DEPTH: usize = 64;
/// Maximum number of members per object in an input.
const MAX_MEMBERS: usize = 100_000;
const READER: Reader = Reader { members: MAX_MEMBERS, ..Reader::exact(MAX_DEPTH) };
const JSON_LINES: &str = "application/jsonl";

#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) path: String,
    pub(crate) procedure: Option<&'static Procedure>,
}

/// The calls of a request, and the format of the response.
#[derive(Clone, Debug)]
pub(crate) struct Envelope {
    pub(crate) calls: Vec<Call>,
    pub(crate) is_batch: bool,
    /// The response is requested as lines.
    pub(crate) takes_lines: bool,
}

/// The query parameters of a request.
#[derive(Debug, Default)]
pub(crate) struct Query {
    pub(crate) is_batch: bool,
    input: Option<String>,
    pub(crate) last_event_id: Option<String>,
    pub(crate) has_connection_params: bool,
}

/// Inputs by the index of their call.
pub(crate) type Inputs = BTreeMap<usize, Box<RawValue>>;

impl Query {
    pub(crate) fn parse(uri: &Uri) -> Self {
        let mut query = Self::default();
        let mut has_batch = false;
        for (name, value) in form_urlencoded::parse(uri.query().unwrap_or("").as_bytes()) {
            match &*name {
                // Only the first of several counts.
                "batch" if !has_batch => {
                    has_batch = true;
                    query.is_batch = value == "1";
                }
                "input" if query.input.is_none() => query.input = Some(value.into_owned()),
                "lastEventId" | "Last-Event-Id" if query.last_event_id.is_none() => {
                    query.last_event_id = Some(value.into_owned());
                }
                "connectionParams" => query.has_connection_params = true,
                _ => {}
            }
        }
        query
    }
}

impl Envelope {
    /// Parses the envelope. Returns an error if the request is invalid as a whole.
    pub(crate) fn parse(
        verb: &Method,
        uri: &Uri,
        query: &Query,
        headers: &HeaderMap,
    ) -> Result<Self, TrpcError> {
        let path = read_path(uri)?;
        check_content_type(verb, headers)?;
        let is_batch = query.is_batch;
        let mut calls = Vec::new();
        let parts = if is_batch { path.split(',').collect() } else { vec![path.as_str()] };
        if parts.len() > MAX_CALLS {
            return Err(TrpcError::bad_request("Batch call exceeds maximum size"));
        }
        for part in parts {
            calls.push(Call { path: part.to_owned(), procedure: procedures::find(part) });
        }
        check_kinds(&calls)?;
        let takes_lines = wants_lines(headers);
        if takes_lines && !is_batch {
            let words = "Streaming requests must be batched (you can do a batch of 1)";
            return Err(TrpcError::bad_request(words));
        }
        Ok(Self { calls, is_batch, takes_lines })
    }

    /// Parses the inputs of all calls.
    pub(crate) fn read_inputs(
        &self,
        verb: &Method,
        query: &Query,
        body: &Bytes,
    ) -> Result<Inputs, TrpcError> {
        let text = match *verb {
            Method::GET => query.input.as_deref().unwrap_or(""),
            _ => from_utf8(body).map_err(|_| TrpcError::bad_request("the body is not UTF-8"))?,
        };
        let mut inputs = Inputs::new();
        if text.is_empty() {
            return Ok(inputs);
        }
        let value = READER.check(text.as_bytes()).map_err(TrpcError::bad_request)?;
        if !self.is_batch {
            inputs.insert(0, keep(text)?);
            return Ok(inputs);
        }
        let words = "\"input\" needs to be an object when doing a batch call";
        if !value.is_object() {
            return Err(TrpcError::bad_request(words));
        }
        let Ok(all) = serde_json::from_str::<BTreeMap<String, &RawValue>>(text) else {
            return Err(TrpcError::bad_request(words));
        };
        for at in 0..self.calls.len() {
            if let Some(input) = all.get(&at.to_string()) {
                inputs.insert(at, (*input).to_owned());
            }
        }
        Ok(inputs)
    }
}

fn keep(text: &str) -> Result<Box<RawValue>, TrpcError> {
    RawValue::from_string(text.to_owned())
        .map_err(|error| TrpcError::bad_request(error.to_string()))
}

/// Returns the path below `/trpc/`, decoded once and as a whole.
pub(crate) fn read_path(uri: &Uri) -> Result<String, TrpcError> {
    let path = uri.path();
    let below = path.strip_prefix("/trpc").unwrap_or(path);
    let below = below.strip_prefix('/').unwrap_or(below);
    if let Some(bytes) = percent::decode_strictly(below)
        && let Ok(decoded) = String::from_utf8(bytes)
    {
        return Ok(decoded);
    }
    let words = format!("Invalid URL-encoding in path \"{below}\"");
    Err(TrpcError::bad_request(words))
}

/// Checks the media type without its parameters. Forms and files are rejected, because no procedure
/// accepts them.
fn check_content_type(verb: &Method, headers: &HeaderMap) -> Result<(), TrpcError> {
    if verb == Method::GET || is_json(headers) {
        return Ok(());
    }
    let words = match read_header(headers, CONTENT_TYPE) {
        Some(given) => format!("Unsupported content-type \"{given:.128}"),
        None => "Missing content-type header".to_owned(),
    };
    Err(TrpcError::new(Code::UNSUPPORTED_MEDIA_TYPE, words))
}

/// Checks that all known procedures of a request are of the same kind.
fn check_kinds(calls: &[Call]) -> Result<(), TrpcError> {
    let mut kinds = Vec::new();
    for call in calls {
        let Some(procedure) = call.procedure else { continue };
        let kind = procedure.kind.as_str();
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    if kinds.len() > 1 {
        let words = format!("Cannot mix procedure types in call: {}", kinds.join(", "));
        return Err(TrpcError::bad_request(words));
    }
    Ok(())
}

/// Returns whether lines are requested. `trpc-accept` has precedence over `accept`.
fn wants_lines(headers: &HeaderMap) -> bool {
    if let Some(wanted) = headers.get("trpc-accept") {
        return wanted == JSON_LINES;
    }
    let accepted = read_header(headers, ACCEPT).unwrap_or("");
    accepted.split(',').any(|kind| kind.trim() == JSON_LINES)
}
