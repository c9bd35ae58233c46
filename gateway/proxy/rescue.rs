//! Conversion of every error of the request path into a response: code, HTTP status, message to the
//! client. Log messages are written where the error is detected.

mod failure;
mod relay;

use std::borrow::Cow;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

use http::header::{ALLOW, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue, StatusCode};
use lockgate_admission::budget::DROPPED;
use lockgate_authn::AuthnError;
use lockgate_protocol::jsonrpc::MessageError;
use lockgate_protocol::{code, modern, write};
use lockgate_telemetry::audit::RecordError;
use lockgate_telemetry::{Denial, Outcome, Rejection};
use serde_json::{Value, json};

pub use failure::classify_failure;

use crate::modern_clients::LaneError;
use crate::quota::{Exhausted, name_stream_limit};
use crate::transport::{ClientProtocol, LEGACY, Reply};

/// Methods that an endpoint accepts without a session.
const WITHOUT_SESSION: &str = "POST, OPTIONS";

/// An error for a client. The size of a pointer, so that successful results stay small.
#[derive(Clone, Debug)]
pub struct RequestError(Box<ErrorParts>);

/// The code, the message and the record of an error.
#[derive(Clone, Debug)]
pub struct ErrorParts {
    pub(crate) code: i64,
    pub(crate) message: Cow<'static, str>,
    pub(crate) data: Option<Value>,
    /// Overrides the usual HTTP status of the code.
    pub(crate) status: Option<StatusCode>,
    pub(crate) retry_after: Option<Duration>,
    challenge: Option<HeaderValue>,
    /// A result that is sent instead of an error.
    result: Option<Value>,
    /// The name of the policy that decided.
    pub(crate) rule: Option<Arc<str>>,
    /// The reason of a denial.
    pub(crate) denial: Denial,
    /// Set if the requested name does not exist, or policy hides it.
    pub(crate) is_unknown: bool,
    /// The server of the requested item, if visible to the caller.
    pub(crate) server: Option<Box<str>>,
    pub outcome: Outcome,
    /// The reason in the log and the audit trail, if it differs from the message to the client.
    recorded: Option<&'static str>,
}

impl Deref for RequestError {
    type Target = ErrorParts;

    fn deref(&self) -> &ErrorParts {
        &self.0
    }
}

impl DerefMut for RequestError {
    fn deref_mut(&mut self) -> &mut ErrorParts {
        &mut self.0
    }
}

/// The call could not be recorded in the audit trail, and must not be made without a record.
impl From<RecordError> for RequestError {
    fn from(unwritable: RecordError) -> Self {
        let mut problem = Self::new(code::INTERNAL, unwritable.to_string())
            .status(StatusCode::SERVICE_UNAVAILABLE);
        problem.data = Some(json!({"reason": "audit"}));
        problem.retry_after = Some(Duration::from_secs(5));
        problem
    }
}

impl RequestError {
    #[cold]
    pub fn new(code: i64, message: impl Into<Cow<'static, str>>) -> Self {
        Self(Box::new(ErrorParts {
            code,
            message: message.into(),
            data: None,
            status: None,
            retry_after: None,
            challenge: None,
            result: None,
            rule: None,
            denial: Denial::Policy,
            is_unknown: false,
            server: None,
            outcome: Outcome::ProtocolError,
            recorded: None,
        }))
    }

    /// Returns the error and the reply for a body that is not a valid message.
    pub fn unreadable(refusal: &MessageError, body: &[u8]) -> (Self, Reply) {
        let (code, id) = match refusal {
            MessageError::Parse(_) => (code::PARSE, None),
            MessageError::Invalid { id, .. } => (code::INVALID_REQUEST, *id),
        };
        let problem = Self::new(code, refusal.to_string()).status(StatusCode::BAD_REQUEST);
        let reply = problem.reply(id.map(|span| span.of(body)));
        (problem, reply)
    }

    /// Sets a reason for the log and the audit trail that the client does not receive.
    pub(crate) fn recorded_as(mut self, reason: &'static str) -> Self {
        self.recorded = Some(reason);
        self
    }

    /// Returns the reason for the log and the audit trail.
    pub(crate) fn recorded_reason(&self) -> &str {
        self.recorded.unwrap_or(&self.message)
    }

    pub fn data(mut self, data: Value) -> Self {
        self.data = Some(data);
        self
    }

    pub fn status(mut self, status: StatusCode) -> Self {
        self.status = Some(status);
        self
    }

    pub fn invalid(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(code::INVALID_PARAMS, message)
    }

    pub(crate) fn stale_cursor() -> Self {
        Self::invalid("the cursor is no longer valid; restart without a cursor")
    }

    /// Returns the error for a request cancelled by its client, which expects no response.
    pub fn withdrawn() -> Self {
        let mut problem = Self::new(code::INTERNAL, "the request was cancelled");
        problem.outcome = Outcome::Cancelled;
        problem
    }

    /// Returns whether the client receives a result in place of a JSON-RPC error.
    pub(crate) fn is_result(&self) -> bool {
        self.result.is_some()
    }

    /// Returns the error for a reached limit. The client may retry in a few seconds.
    fn overloaded(words: impl Into<Cow<'static, str>>, reason: &str) -> Self {
        let mut problem = Self::new(code::OVERLOADED, words)
            .status(StatusCode::SERVICE_UNAVAILABLE)
            .data(json!({"reason": reason}));
        problem.retry_after = Some(Duration::from_secs(5));
        problem
    }

    /// Returns the error for a full queue of CPU-bound work.
    pub(crate) fn too_many_judgements(wait: Duration) -> Self {
        let words = "too many large or expensive requests are waiting for evaluation \
            (limits.queued_judgements)";
        let mut problem = Self::overloaded(words, "judgements");
        let ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        problem.data = Some(json!({"reason": "judgements", "retryAfterMs": ms}));
        problem.retry_after = Some(wait);
        problem
    }

    /// Returns the error for a name that does not exist or is hidden by policy. Both must look the
    /// same.
    pub(crate) fn unknown(what: &str, name: &str) -> Self {
        Self::invalid(format!("unknown {what}: {name:.128}")).unknown_name()
    }

    fn unknown_name(mut self) -> Self {
        self.is_unknown = true;
        self
    }

    pub(crate) fn unknown_task() -> Self {
        Self::invalid("unknown task").unknown_name()
    }

    /// Returns the error for a resource that does not exist or is hidden by policy, with the code
    /// of `RequestContext::missing_resource`.
    pub fn unknown_resource(uri: &str, code: i64) -> Self {
        let uri = format!("{uri:.256}");
        Self::new(code, "resource not found").data(json!({"uri": uri})).unknown_name()
    }

    /// Returns the error for an endpoint that does not exist or is hidden by policy. Not -32601,
    /// which would concern the method.
    pub fn no_endpoint() -> Self {
        Self::new(code::INVALID_REQUEST, "no such endpoint").status(StatusCode::NOT_FOUND)
    }

    pub fn method_not_found(method: &str) -> Self {
        let words = format!("method not found: {method:.64}");
        Self::new(code::METHOD_NOT_FOUND, words).unknown_name()
    }

    /// Returns the error for a standard header that is missing or contradicts the body (modern
    /// era).
    pub(crate) fn header(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(code::HEADER_MISMATCH, message).status(StatusCode::BAD_REQUEST)
    }

    pub(crate) fn version(requested: &str) -> Self {
        Self::new(code::UNSUPPORTED_VERSION, "unsupported protocol version")
            .status(StatusCode::BAD_REQUEST)
            .data(modern::version_error(requested))
    }

    pub fn too_many_streams(limit: Exhausted) -> Self {
        let (words, reason) = name_stream_limit(limit);
        let mut problem = Self::new(code::OVERLOADED, words).data(json!({"reason": reason}));
        problem.retry_after = Some(Duration::from_secs(5));
        problem
    }

    pub fn too_many_sessions(limit: Exhausted) -> Self {
        match limit {
            Exhausted::All | Exhausted::Organisation => {
                Self::overloaded("too many sessions (limits.sessions); retry later", "sessions")
            }
            Exhausted::Principal => Self::overloaded(
                "too many sessions of this caller (limits.sessions_per_principal): end one, or \
                    retry later",
                "sessions_per_principal",
            ),
        }
    }

    /// Returns the error for too many calls that wait for answers of their clients.
    pub(crate) fn too_many_parked(limit: &str) -> Self {
        let words = format!(
            "the server has a question, but too many calls are waiting for answers \
                (limits.{limit}); answer or cancel some, or retry later"
        );
        Self::overloaded(words, limit)
    }

    /// Returns the error for a call of an interactive client that gets no lane.
    pub(crate) fn no_lane(refused: LaneError) -> Self {
        let (limit, words) = match refused {
            LaneError::Profiles => (
                "client_profiles",
                "calls of this caller with 16 other sets of client capabilities are running or \
                    queued",
            ),
            LaneError::Clients => ("sessions", "too many clients have calls (limits.sessions)"),
            LaneError::Calls => {
                ("client_calls", "1,024 calls of this client are running or queued")
            }
        };
        Self::overloaded(words, limit)
    }

    pub(crate) fn too_many_rounds(slug: &str) -> Self {
        Self::new(code::INTERNAL, format!("server {slug} asked too many rounds of questions"))
    }

    /// Returns the error for a caller that is not authenticated, or lacks a scope required by every
    /// request.
    pub(crate) fn unauthenticated(unknown: AuthnError, challenge: &str) -> Self {
        let (code, status) = match unknown {
            AuthnError::Scope => (code::FORBIDDEN, StatusCode::FORBIDDEN),
            AuthnError::Unavailable => (code::OVERLOADED, StatusCode::SERVICE_UNAVAILABLE),
            _ => (code::UNAUTHENTICATED, StatusCode::UNAUTHORIZED),
        };
        let mut problem = Self::new(code, unknown.to_string()).status(status);
        match unknown {
            AuthnError::Unavailable => {
                problem.retry_after = Some(Duration::from_secs(5));
                problem.data = Some(json!({"reason": Rejection::IssuerKeys.as_str()}));
            }
            _ => problem.challenge = HeaderValue::from_str(challenge).ok(),
        }
        problem
    }

    /// Returns a tool result with `isError`, so that the model can read the refusal.
    pub(crate) fn tool_error(words: String) -> Self {
        let result = json!({"content": [{"type": "text", "text": words}], "isError": true});
        let mut problem = Self::invalid(words);
        problem.result = Some(result);
        problem
    }

    /// Returns an empty completion for servers without completions. Not an error.
    pub(crate) fn no_values() -> Self {
        let result = json!({"completion": {"values": [], "total": 0, "hasMore": false}});
        let mut problem = Self::new(code::METHOD_NOT_FOUND, "the server offers no completions");
        problem.result = Some(result);
        problem.outcome = Outcome::Ok;
        problem
    }

    /// Sets the server, for records.
    pub(crate) fn of_server(mut self, server: &str) -> Self {
        self.server = Some(server.into());
        self
    }

    /// Returns the error for a response that was dropped for lack of memory.
    pub fn dropped() -> Self {
        Self::new(code::OVERLOADED, DROPPED)
    }

    /// Returns the error for a response that was dropped because of a full queue of CPU-bound work.
    pub(crate) fn no_turn() -> Self {
        let words = "the response was dropped because too many large messages are waiting to be \
            parsed; the call may have taken effect";
        let problem = Self::new(code::OVERLOADED, words).status(StatusCode::SERVICE_UNAVAILABLE);
        problem.data(json!({"reason": "judgements"}))
    }

    /// Returns the error for a response that could not be rewritten for lack of memory.
    pub(crate) fn no_memory() -> Self {
        Self::dropped().status(StatusCode::SERVICE_UNAVAILABLE).data(json!({"reason": "memory"}))
    }

    /// Returns the rejection under which an error without a policy rule is counted.
    pub(crate) fn classify(&self) -> Rejection {
        match self.code {
            code::HEADER_MISMATCH => Rejection::Mismatch,
            code::UNSUPPORTED_VERSION | code::MISSING_CAPABILITY => Rejection::Unsupported,
            code::LIMITED => Rejection::RateLimited,
            code::OVERLOADED => Rejection::Overloaded,
            code::METHOD_NOT_FOUND => Rejection::NotFound,
            _ if self.status == Some(StatusCode::NOT_FOUND) => Rejection::NotFound,
            _ => Rejection::Malformed,
        }
    }

    fn http_status(&self, client: &ClientProtocol) -> StatusCode {
        match (self.status, self.code) {
            (Some(status), _) => status,
            (None, code::METHOD_NOT_FOUND) if self.result.is_none() => client.unknown_method,
            (None, _) => StatusCode::OK,
        }
    }

    pub(crate) fn text(&self, client: &ClientProtocol, id: Option<&[u8]>) -> Vec<u8> {
        match (&self.result, id) {
            (Some(result), Some(id)) => write_result(client, id, result.clone()),
            _ => write::error(id, self.code, &self.message, self.data.as_ref()),
        }
    }

    /// Returns the reply to a message of a session, or of a client that is not known yet.
    pub fn reply(&self, id: Option<&[u8]>) -> Reply {
        self.reply_in(&LEGACY, id)
    }

    pub(crate) fn reply_in(&self, client: &ClientProtocol, id: Option<&[u8]>) -> Reply {
        let mut headers = HeaderMap::new();
        if let Some(challenge) = &self.challenge {
            headers.insert(WWW_AUTHENTICATE, challenge.clone());
        }
        if let Some(wait) = self.retry_after
            && self.status.is_some()
        {
            headers
                .insert(RETRY_AFTER, HeaderValue::from(wait.as_secs_f64().ceil().max(1.0) as u64));
        }
        if self.status == Some(StatusCode::METHOD_NOT_ALLOWED) {
            headers.insert(ALLOW, HeaderValue::from_static(WITHOUT_SESSION));
        }
        let reply = Reply::message(self.text(client, id));
        reply.with_status(self.http_status(client)).with_headers(headers)
    }
}

/// Writes a complete result of the gateway's own.
pub(crate) fn write_result(client: &ClientProtocol, id: &[u8], mut result: Value) -> Vec<u8> {
    if client.describes_results {
        result["resultType"] = "complete".into();
    }
    write::result(id, result.to_string().as_bytes())
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ApprovalError {
    #[error(
        "it requires the caller's approval, and this client did not declare the elicitation \
            capability"
    )]
    CannotAsk,
    #[error(
        "it requires approval by others, which is not available here: approvers connect to \
            `lockgate serve` over HTTP, with their own credential"
    )]
    NobodyToAsk,
    #[error("a call made by another tool cannot wait for an approval")]
    Nested,
    #[error("it cannot be shown for approval: {0}")]
    Unshowable(String),
    #[error("it was denied by {0}")]
    Denied(String),
    #[error("it was not approved in time")]
    Expired,
    #[error("its client is gone")]
    Left,
    #[error("request state expired: it was not approved in time")]
    StateExpired,
    #[error(
        "its approval was not found: it was already used, expired or evicted, or the gateway was \
            restarted"
    )]
    Unknown,
    #[error("it is not the call that was shown for approval")]
    Other,
    #[error("a condition of its approval has changed: {0}")]
    Changed(&'static str),
    #[error("the gateway is shutting down before its approval")]
    Stopping,
    #[error("too many calls are waiting for approval ({})", name_limit(*.0).0)]
    NoRoom(Exhausted),
    /// An error of the audit trail, which is not that of an approval for the client.
    #[error(transparent)]
    Unrecorded(#[from] RecordError),
}

/// Returns a limit on approvals in words, and its name in an error's data.
fn name_limit(limit: Exhausted) -> (&'static str, &'static str) {
    match limit {
        Exhausted::All => ("limits.approvals", "approvals"),
        Exhausted::Organisation => {
            ("half of limits.approvals for one organisation", "approvals_of_organisation")
        }
        Exhausted::Principal => ("limits.approvals_per_principal", "approvals_per_principal"),
    }
}

impl RequestError {
    /// Returns the error for an unapproved call: a result for the model to read, unless the client
    /// made a mistake or a limit was reached.
    pub(crate) fn unapproved(error: &ApprovalError, rule: Option<&Arc<str>>) -> Self {
        let by = rule.map(|rule| format!(" by policy {rule}")).unwrap_or_default();
        let words = format!("the call was not made, refused{by}: {error}");
        let problem = match error {
            ApprovalError::Unknown | ApprovalError::Other | ApprovalError::StateExpired => {
                Self::invalid(words)
            }
            ApprovalError::NoRoom(limit) => Self::new(code::OVERLOADED, words)
                .status(StatusCode::SERVICE_UNAVAILABLE)
                .data(json!({"reason": name_limit(*limit).1})),
            _ => Self::tool_error(words),
        };
        let rule = rule.map_or_else(|| "approval".into(), Arc::clone);
        problem.denied(rule).because(Denial::Approval)
    }
}
