//! A request from its bytes to the response: parses the calls, checks the method and input of each,
//! and runs them, with a joint response or a line per call.

use std::collections::BTreeMap;
use std::str::from_utf8;
use std::sync::Arc;

use axum::body::{Bytes, to_bytes};
use axum::extract::{FromRequestParts, Request, State};
use axum::http::header::{ACCEPT, CONTENT_TYPE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, join_all};
use lockgate_text::json::Reader;
use lockgate_text::{json, percent};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::answer::{
    Answered, Outcome, answer_batch, answer_lines, answer_one, bad_request, fail, refuse,
};
use super::input::{self, Action, Procedure, ProcedureKind};
use super::run::{Run, check_input, parse_input};
use super::subscription::{follow_events, refuse as refuse_subscription};
use crate::api::access::Caller;
use crate::api::problem::Problem;
use crate::api::state::ApiState;
use crate::api::table::is_of_other_origin;
use crate::{is_json, read_header};

/// Limit on path and query, in bytes.
const MAX_URL: usize = 16 * 1024;

const CONNECTION_PARAMS: &str = "credentials in a URL are not accepted, and neither are \
    `connectionParams`: send `Authorization: Bearer` with a key or token; in a program, with the \
    `fetch` option of an EventSource that supports headers";

/// A request with its calls.
struct Exchange {
    state: Arc<ApiState>,
    caller: Arc<Caller>,
    headers: HeaderMap,
    verb: Method,
    calls: Vec<Call>,
    is_batch: bool,
    /// The response is requested as lines.
    takes_lines: bool,
    /// By the index of their call. An error concerns only procedures that have an input.
    inputs: Result<Inputs, Problem>,
    /// The id of the last event that a subscription has received.
    last_event_id: Option<String>,
}

/// Handles every path below `/trpc`.
pub(crate) async fn answer(State(state): State<Arc<ApiState>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    if parts.method == Method::HEAD {
        return StatusCode::NO_CONTENT.into_response();
    }
    // The composition root has already read the body within its limits.
    let Ok(body) = to_bytes(body, usize::MAX).await else {
        return refuse(&bad_request("the body is incomplete"));
    };
    let is_event_source = is_event_source(&parts);
    match Exchange::open(state, parts, &body).await {
        Ok(exchange) => Arc::new(exchange).answer().await,
        // An `EventSource` exposes the content of streams only.
        Err(failure) if is_event_source => refuse_subscription(&failure, None),
        Err(failure) => refuse(&failure),
    }
}

/// Returns whether the request is a subscription, by the `Accept` header that only those send.
fn is_event_source(parts: &Parts) -> bool {
    let accepted = parts.headers.get(ACCEPT);
    parts.method == Method::GET && matches!(accepted, Some(kind) if kind == "text/event-stream")
}

impl Exchange {
    /// Parses a request. Returns an error if it is invalid as a whole.
    async fn open(state: Arc<ApiState>, mut parts: Parts, body: &Bytes) -> Result<Self, Problem> {
        let caller = Arc::new(Caller::from_request_parts(&mut parts, &state).await?);
        if parts.uri.to_string().len() > MAX_URL {
            let words = "the path and the query together exceed 16384 bytes: set `maxURLLength` \
                of the link to 14000";
            return Err(fail(StatusCode::URI_TOO_LONG, words));
        }
        if is_of_other_origin(&parts.uri, &parts.headers) {
            let words = "web pages of other origins may not call the gateway: call it from a \
                program";
            let path = format!("{} {}", parts.method, parts.uri.path());
            state.gateway.record_forbidden(words, Some(&caller.principal), &path);
            return Err(fail(StatusCode::FORBIDDEN, words));
        }
        let query = Query::parse(&parts.uri);
        if query.has_connection_params {
            return Err(fail(StatusCode::UNAUTHORIZED, CONNECTION_PARAMS));
        }
        let calls = read_calls(&parts, query.is_batch)?;
        let takes_lines = wants_lines(&parts.headers);
        if takes_lines && !query.is_batch {
            let words = "Streaming requests must be batched (you can do a batch of 1)";
            return Err(bad_request(words));
        }
        let inputs = query.read_inputs(&parts.method, body, calls.len());
        let last_event_id = read_header(&parts.headers, "last-event-id").map(str::to_owned);
        Ok(Self {
            last_event_id: last_event_id.or(query.last_event_id),
            is_batch: query.is_batch,
            headers: parts.headers,
            verb: parts.method,
            state,
            caller,
            calls,
            takes_lines,
            inputs,
        })
    }

    async fn answer(self: Arc<Self>) -> Response {
        if let [call] = &*self.calls
            && let Some(procedure) = call.procedure
            && procedure.kind == ProcedureKind::Subscription
            && !self.is_batch
        {
            return self
                .open_subscription(procedure, &call.path)
                .unwrap_or_else(|failure| refuse_subscription(&failure, Some(&call.path)));
        }
        let calls = (0..self.calls.len()).map(|at| {
            let exchange = Arc::clone(&self);
            async move { exchange.run_call(at).await }.boxed()
        });
        let calls: Vec<BoxFuture<'static, Answered>> = calls.collect();
        if self.takes_lines {
            return answer_lines(calls);
        }
        let answered = join_all(calls).await;
        match answered.first() {
            Some(only) if !self.is_batch => answer_one(only),
            _ => answer_batch(&answered),
        }
    }

    async fn run_call(&self, at: usize) -> Answered {
        let call = &self.calls[at];
        Answered { path: call.path.clone(), outcome: self.decide(at, call).await }
    }

    async fn decide(&self, at: usize, call: &Call) -> Outcome {
        let path = &call.path;
        let Some(procedure) = call.procedure else {
            let words = format!("No procedure found on path \"{path}\"");
            return Err(fail(StatusCode::NOT_FOUND, words));
        };
        self.check_verb(procedure)?;
        if procedure.kind == ProcedureKind::Subscription {
            return Err(bad_request("Cannot batch subscription calls"));
        }
        let input = match procedure.action {
            Action::Status => None,
            _ => self.find_input(at)?,
        };
        let run = Run::new(&self.state, &self.caller, &self.headers);
        run.procedure(procedure, input).await
    }

    /// Returns the input of the call with this index, if present.
    fn find_input(&self, at: usize) -> Result<Option<&RawValue>, Problem> {
        let inputs = self.inputs.as_ref().map_err(Problem::clone)?;
        Ok(inputs.get(&at).map(|input| &**input))
    }

    fn check_verb(&self, procedure: &Procedure) -> Result<(), Problem> {
        let verb = &self.verb;
        let kind = procedure.kind;
        if verb.as_str() == kind.verb() {
            return Ok(());
        }
        let name = kind.as_str();
        let path = procedure.path;
        let words = format!("Unsupported {verb}-request to {name} procedure at path \"{path}\"");
        Err(fail(StatusCode::METHOD_NOT_ALLOWED, words).allow(kind.verb()))
    }

    /// Opens a subscription, after its last event.
    fn open_subscription(&self, procedure: &Procedure, path: &str) -> Result<Response, Problem> {
        self.check_verb(procedure)?;
        let mut given = parse_input(self.find_input(0)?)?;
        if let Some(id) = &self.last_event_id
            && let Value::Object(members) = given.get_or_insert_with(|| json!({}))
        {
            members.insert("lastEventId".to_owned(), id.as_str().into());
        }
        let input = check_input(procedure, given)?;
        follow_events(Arc::clone(&self.state), &self.caller, &input, path)
    }
}

/// Returns the response to a request that was refused earlier, with an error for each call.
/// Procedures are not looked up.
pub(crate) fn refuse_all(parts: &Parts, failure: &Problem) -> Response {
    let query = Query::parse(&parts.uri);
    if is_event_source(parts) {
        let of_url = fail(StatusCode::UNAUTHORIZED, CONNECTION_PARAMS);
        let failure = if query.has_connection_params { &of_url } else { failure };
        return refuse_subscription(failure, None);
    }
    if !query.is_batch {
        return refuse(failure);
    }
    let path = read_path(&parts.uri).unwrap_or_default();
    let calls = path.split(',').take(MAX_CALLS);
    let all = calls.map(|path| Answered { path: path.to_owned(), outcome: Err(failure.clone()) });
    answer_batch(&all.collect::<Vec<_>>())
}

// The parts of a request as tRPC's clients send it over HTTP (trpc: http/contentType.ts).

/// Maximum number of calls per batch.
const MAX_CALLS: usize = 32;
/// Maximum nesting depth of an input.
const MAX_DEPTH: usize = 64;
/// Maximum number of members per object in an input.
const MAX_MEMBERS: usize = 100_000;
const READER: Reader = Reader { members: MAX_MEMBERS, ..Reader::exact(MAX_DEPTH) };
const JSON_LINES: &str = "application/jsonl";

struct Call {
    path: String,
    procedure: Option<&'static Procedure>,
}

/// The query parameters of a request.
#[derive(Default)]
struct Query {
    is_batch: bool,
    input: Option<String>,
    last_event_id: Option<String>,
    has_connection_params: bool,
}

type Inputs = BTreeMap<usize, Box<RawValue>>;

impl Query {
    fn parse(uri: &Uri) -> Self {
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

    /// Parses the inputs of this number of calls.
    fn read_inputs(&self, verb: &Method, body: &Bytes, count: usize) -> Result<Inputs, Problem> {
        let text = match *verb {
            Method::GET => self.input.as_deref().unwrap_or(""),
            _ => from_utf8(body).map_err(|_| bad_request("the body is not UTF-8"))?,
        };
        if text.is_empty() {
            return Ok(Inputs::new());
        }
        let value = READER.check(text.as_bytes()).map_err(bad_request)?;
        if !self.is_batch {
            let input = RawValue::from_string(text.to_owned());
            return Ok(Inputs::from([(0, input.map_err(|error| bad_request(error.to_string()))?)]));
        }
        let words = "\"input\" needs to be an object when doing a batch call";
        if !value.is_object() {
            return Err(bad_request(words));
        }
        let Ok(all) = json::from_str::<BTreeMap<String, &RawValue>>(text) else {
            return Err(bad_request(words));
        };
        let given = (0..count).filter_map(|at| {
            let input = all.get(&at.to_string())?;
            Some((at, (*input).to_owned()))
        });
        Ok(given.collect())
    }
}

/// Returns the calls of a request, which are of the same kind.
fn read_calls(parts: &Parts, is_batch: bool) -> Result<Vec<Call>, Problem> {
    let path = read_path(&parts.uri)?;
    check_content_type(&parts.method, &parts.headers)?;
    let paths = if is_batch { path.split(',').collect() } else { vec![path.as_str()] };
    if paths.len() > MAX_CALLS {
        return Err(bad_request("Batch call exceeds maximum size"));
    }
    let calls = paths.into_iter();
    let calls = calls.map(|path| Call { path: path.to_owned(), procedure: input::find(path) });
    let calls: Vec<_> = calls.collect();
    check_kinds(&calls)?;
    Ok(calls)
}

/// Returns the path below `/trpc/`, decoded once and as a whole.
fn read_path(uri: &Uri) -> Result<String, Problem> {
    let path = uri.path();
    let below = path.strip_prefix("/trpc").unwrap_or(path);
    let below = below.strip_prefix('/').unwrap_or(below);
    if let Some(bytes) = percent::decode_strictly(below)
        && let Ok(decoded) = String::from_utf8(bytes)
    {
        return Ok(decoded);
    }
    let words = format!("Invalid URL-encoding in path \"{below}\"");
    Err(bad_request(words))
}

/// Checks the media type without its parameters. Forms and files are rejected, because no procedure
/// accepts them.
fn check_content_type(verb: &Method, headers: &HeaderMap) -> Result<(), Problem> {
    if verb == Method::GET || is_json(headers) {
        return Ok(());
    }
    let words = match read_header(headers, CONTENT_TYPE) {
        Some(given) => format!("Unsupported content-type \"{given:.128}"),
        None => "Missing content-type header".to_owned(),
    };
    Err(fail(StatusCode::UNSUPPORTED_MEDIA_TYPE, words))
}

/// Checks that all known procedures of a request are of the same kind.
fn check_kinds(calls: &[Call]) -> Result<(), Problem> {
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
        return Err(bad_request(words));
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
