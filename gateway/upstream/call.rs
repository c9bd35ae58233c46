//! An era-neutral call to a server, its answer, and the channel to the client during the call; and
//! a built-in server's view of the call's caller. The view exposes nothing that policy hides, and
//! reaches servers only through the same decision as the caller's own requests. Also the ids of
//! servers, and identity assertions, which are never sent to another server and never logged.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use lockgate_admission::{CallerId, clock};
use lockgate_protocol::jsonrpc::{Outcome, Request};
use lockgate_protocol::key::Key;
use lockgate_protocol::method::Method;
use lockgate_protocol::revision::Era;
use lockgate_protocol::scan;
use lockgate_protocol::scan::Member;
use lockgate_telemetry::{CallTrace, ToolMetrics};

use crate::catalog::ListKind;
use crate::failure::UpstreamError;
use crate::{BoxFuture, Upstream};

/// A request to a server. Dropping the future of the call cancels it at the server.
pub struct Call<'a> {
    /// The server's own tool or prompt name, resource URI or task id.
    pub target: &'a str,
    /// The client's request; members of its `params` are copied unless replaced.
    pub request: &'a Request,
    /// Replacements for other members of `params` on this hop, as JSON text; `None` omits the
    /// member.
    pub replaced: &'a [(Key, Option<Vec<u8>>)],
    pub caller: &'a Caller,
    /// The caller's identity and permissions, for built-in servers; `None` for calls without a
    /// particular caller.
    pub caller_view: Option<&'a dyn CallerView>,
    /// The identity of a particular caller without a view.
    pub identity: Option<&'a CallerIdentity<'a>>,
    /// The channel to the client during the call; `None` if the client cannot receive anything.
    pub channel: Option<Arc<dyn ClientChannel>>,
    /// Receives a large answer in pieces; `None` if the client cannot stream it.
    pub sink: Option<Arc<dyn ResponseSink>>,
    /// The metrics of the called tool.
    pub tool: Option<Arc<ToolMetrics>>,
    pub trace: Option<CallTrace>,
    pub began: Instant,
    /// Overrides the server's own timeout.
    pub timeout: Option<Duration>,
}

impl<'a> Call<'a> {
    /// Creates a call that sends the request as it is, without a way back to the client.
    pub fn new(target: &'a str, request: &'a Request, caller: &'a Caller) -> Self {
        Self {
            target,
            request,
            replaced: &[],
            caller,
            caller_view: None,
            identity: None,
            channel: None,
            sink: None,
            tool: None,
            trace: None,
            began: clock::now(),
            timeout: None,
        }
    }

    pub fn method(&self) -> Method {
        self.request.method
    }

    /// Returns a member of `params` for this hop as JSON text: as policy substituted it, or the
    /// client's own.
    pub fn param(&self, key: Key) -> Option<&[u8]> {
        let replaced = self.replaced.iter().find(|(name, _)| *name == key);
        replaced.map_or_else(|| self.request.param(key), |(_, own)| own.as_deref())
    }
}

/// The properties of a client that its server calls depend on.
#[derive(Clone)]
pub struct Caller {
    /// Identity used for fair queueing.
    pub id: CallerId,
    /// Asserts the caller's identity to servers that require it; `None` if no server does.
    pub assertion: Option<Arc<dyn IdentityAssertion>>,
    /// JSON text of its `ClientCapabilities`; `{}` if it declared none.
    pub capabilities: Bytes,
    /// Whether it declared support for questions (elicitation, sampling, roots).
    pub interactive: bool,
    /// The least severe log level requested for the call.
    pub log_level: Option<LogLevel>,
    /// Its legacy session, for servers that keep state per session.
    pub session: Option<Arc<dyn ClientSession>>,
    pub era: Era,
}

/// The channel to a client during a call. Only `ask` waits for a slow client.
pub trait ClientChannel: Send + Sync {
    /// Returns the number of the caller's principal; 0 if unknown.
    fn principal(&self) -> u64 {
        0
    }
    /// Reports whether the client gave a progress token.
    fn wants_progress(&self) -> bool;
    /// Forwards the server's `notifications/progress`, which carries the gateway's token.
    fn progress(&self, note: &Request);
    /// Forwards a `notifications/message` of the server for this call.
    fn log(&self, note: &Request);
    /// Reports that the server ended its stream and will send its answer on another one, after the
    /// given pause if any.
    fn waiting(&self, pause: Option<Duration>);
    /// Asks the client (`elicitation/create`, `sampling/createMessage`, `roots/list`). Takes
    /// `params` and returns the result as JSON text.
    fn ask(&self, method: Method, params: Bytes) -> BoxFuture<'_, Result<Bytes, QuestionError>>;
}

/// Receives a large answer while it arrives, so that it is never buffered as a whole.
pub trait ResponseSink: Send + Sync {
    /// Reports whether the sink accepts the answer to the request `id`, which begins with `start`.
    /// Calls of `write` follow if so.
    fn begin(&self, id: u64, start: &[u8]) -> bool;

    /// Reports whether the client has received a part of the answer, which rules out a retry.
    fn has_begun(&self) -> bool;

    /// Takes the next piece. Waits while the client does not read.
    fn write(&self, piece: Bytes) -> BoxFuture<'_, Result<(), SinkError>>;

    /// Marks the answer as complete.
    fn finish(&self) -> BoxFuture<'_, Result<(), SinkError>>;

    /// Returns how long the client has kept the server waiting.
    fn client_wait(&self) -> Duration;
}

/// Why a sink rejected a piece.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SinkError {
    #[error("the server's response is not valid: {0}")]
    Invalid(String),
    #[error("the client is gone")]
    ClientGone,
}

/// A legacy client session, as seen by a server with a separate connection for the session.
pub trait ClientSession: Send + Sync + 'static {
    /// Returns the key, unique among all sessions.
    fn key(&self) -> u64;
    /// Reports whether the same client already has another session.
    fn is_further(&self) -> bool {
        false
    }
    /// Reports whether the client sends notifications when its roots change.
    fn tells_roots_changes(&self) -> bool {
        false
    }
    /// Notes that the session's connection at a server may have its own lists from now on
    /// ([`crate::Upstream::own_lists`]).
    fn note_own_lists(&self, _server: &ServerId) {}
    /// Reports the completion of a URL-mode elicitation, by the server's own id.
    fn complete_elicitation(&self, _server: &ServerId, _id: &str) {}
    /// Forwards a `notifications/message` of a server outside of any call.
    fn log(&self, server: &ServerId, note: &Request);
    /// Asks the client outside of a call, on behalf of a server; as [`ClientChannel::ask`].
    fn ask<'a>(
        &'a self,
        server: &'a ServerId,
        method: Method,
        params: Bytes,
    ) -> BoxFuture<'a, Result<Bytes, QuestionError>>;
}

/// The connection that holds a subscription; its notifications are for callers on it alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Subscription {
    /// The shared connection.
    Shared,
    /// The connection of the session with this key.
    Session(u64),
    /// The connection of the account with this number.
    Account(u64),
}

/// Whether a server sends questions during calls, which then need a connection per client, and how
/// a question is attributed to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackChannel {
    /// No such questions: a modern server asks in its results.
    None,
    /// Each question arrives with the call that it belongs to.
    PerCall,
    /// A question may name no call, so a connection carries at most one such call at a time.
    PerConnection,
}

/// Why a question got no answer from the client.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuestionError {
    #[error("the client did not declare the capability")]
    Undeclared,
    #[error("the client did not answer in time")]
    Timeout,
    #[error("the client is gone")]
    Gone,
    /// An error response of the client.
    #[error("the client refused: {message}")]
    Refused { code: i64, message: String },
    /// The question could not be sent, or its answer is invalid: not a decision of the user.
    #[error("{0}")]
    Unusable(String),
}

/// A server's answer, in the server's bytes.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The text that the spans of `outcome` point into.
    pub text: Bytes,
    pub outcome: Outcome,
    pub kind: AnswerKind,
}

/// The kind of a result by its `resultType` (absent means complete).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerKind {
    Complete,
    InputRequired,
    Task,
    /// The outcome is an error object.
    Error,
}

lockgate_text::words! {
    /// Severity of log messages, least severe first.
    #[derive(PartialOrd, Ord, Hash)]
    #[repr(u8)]
    pub enum LogLevel {
        Debug = "debug",
        Info = "info",
        Notice = "notice",
        Warning = "warning",
        Error = "error",
        Critical = "critical",
        Alert = "alert",
        Emergency = "emergency",
    }
}

impl Answer {
    /// Returns the top-level members of the result; empty for an error.
    pub fn members(&self) -> &[Member] {
        match &self.outcome {
            Outcome::Result(_, members) => members,
            Outcome::Error(_) => &[],
        }
    }

    /// Returns a top-level member of the result as JSON text.
    pub fn member(&self, key: Key) -> Option<&[u8]> {
        Some(scan::get(self.members(), key)?.of(&self.text))
    }
}

/// The identity of a caller.
#[derive(Clone, Copy)]
pub struct CallerIdentity<'a> {
    pub organisation: Option<&'a str>,
    pub issuer: &'a str,
    pub subject: &'a str,
    /// The caller's access token, if servers require its exchange.
    pub access_token: Option<CallerToken<'a>>,
}

/// A caller's access token.
#[derive(Clone, Copy)]
pub struct CallerToken<'a> {
    pub text: &'a str,
    /// Identifies the token.
    pub digest: &'a [u8; 32],
    pub expires_at: SystemTime,
}

/// The caller's identity, and the servers and items visible to the caller.
pub trait CallerView: Send + Sync {
    fn identity(&self) -> CallerIdentity<'_>;

    /// Reports whether the caller is an operator of the gateway.
    fn is_operator(&self) -> bool {
        false
    }

    /// Returns the servers visible at the caller's endpoint.
    fn servers(&self) -> Vec<Arc<dyn Upstream>>;

    /// Reports whether most recent calls of a server failed.
    fn calls_fail(&self, server: &dyn Upstream) -> bool;

    /// Returns the items of a list as exposed to the caller.
    fn items(&self, kind: ListKind) -> Vec<VisibleItem>;

    /// Sends `resources/read` on behalf of the caller. Returns the JSON text of the result, or a
    /// message for the caller.
    fn read<'a>(&'a self, uri: &'a str) -> BoxFuture<'a, Result<Bytes, String>>;
}

/// A list item as exposed to a caller.
#[derive(Clone, Debug)]
pub struct VisibleItem {
    /// The server of the item.
    pub slug: Arc<str>,
    /// Its name or URI at the caller's endpoint.
    pub exposed: Arc<str>,
    /// The server's own definition: JSON text of an object.
    pub text: Bytes,
}

/// A gateway-wide server id.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ServerId {
    /// The owning organisation; `None` for the operator's servers, which all share.
    pub organisation: Option<Arc<str>>,
    pub slug: Arc<str>,
}

impl ServerId {
    /// Returns the id of one of the operator's servers.
    pub fn shared(slug: &str) -> Self {
        Self { organisation: None, slug: slug.into() }
    }

    pub fn of(server: &dyn Upstream) -> Self {
        Self { organisation: server.organisation().cloned(), slug: server.slug().into() }
    }

    /// Reports whether this is the id of `server`.
    pub fn names(&self, server: &dyn Upstream) -> bool {
        *self.slug == *server.slug() && self.organisation.as_ref() == server.organisation()
    }
}

/// `slug`, or `organisation/slug`: slugs contain no `/`.
impl fmt::Display for ServerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(organisation) = &self.organisation {
            write!(f, "{organisation}/")?;
        }
        f.write_str(&self.slug)
    }
}

impl dyn Upstream {
    /// Returns the server's gateway-wide name, in the format of [`ServerId`].
    pub fn qualified_name(&self) -> Cow<'_, str> {
        let own = self.organisation().map(|organisation| format!("{organisation}/{}", self.slug()));
        own.map_or(Cow::Borrowed(self.slug()), Cow::Owned)
    }
}

/// The header with the identity assertion. Only the gateway sets it.
pub const IDENTITY_HEADER: &str = "lockgate-identity";

/// Asserts the identity of a caller, or of the gateway itself.
pub trait IdentityAssertion: Send + Sync + 'static {
    /// Returns a signed assertion for this audience alone, valid for at most a minute; `None` if
    /// the gateway has no key (any more). A server has to refuse a request without an assertion.
    fn sign_for(&self, audience: &Arc<str>) -> Option<HeaderValue>;
}

/// The headers of a connection that are made for each request: an identity assertion, a credential
/// that may change, or both.
#[derive(Clone)]
pub(crate) struct Identification {
    pub(crate) identity: Option<OwnIdentity>,
    pub(crate) authorization: Option<Arc<dyn Authorization>>,
}

/// The identity assertions on a connection to a server that requires them.
#[derive(Clone)]
pub(crate) struct OwnIdentity {
    pub(crate) audience: Arc<str>,
    /// The connection's owner: a client, or the gateway itself on a shared connection.
    pub(crate) owner: Arc<dyn IdentityAssertion>,
}

impl Identification {
    /// Adds the headers on behalf of the caller, or of the connection's owner.
    pub(crate) fn add(&self, headers: &mut HeaderMap, caller: Option<&dyn IdentityAssertion>) {
        static NAME: HeaderName = HeaderName::from_static(IDENTITY_HEADER);
        if let Some(mut value) = self.sign(caller) {
            value.set_sensitive(true);
            headers.insert(NAME.clone(), value);
        }
        if let Some((name, value)) = self.authorize() {
            headers.insert(name.clone(), value);
        }
    }

    /// Returns the value of the header with the identity.
    pub(crate) fn sign(&self, caller: Option<&dyn IdentityAssertion>) -> Option<HeaderValue> {
        let identity = self.identity.as_ref()?;
        caller.unwrap_or(&*identity.owner).sign_for(&identity.audience)
    }

    /// Returns the header with the credential.
    pub(crate) fn authorize(&self) -> Option<(&HeaderName, HeaderValue)> {
        let authorization = self.authorization.as_ref()?;
        let value = authorization.ready_header().or_else(|| authorization.header())?;
        Some((authorization.name(), value))
    }

    /// Records a refusal of the credential.
    pub(crate) fn note_refusal(&self, status: StatusCode, headers: &HeaderMap) {
        if let (401 | 403, Some(authorization)) = (status.as_u16(), &self.authorization) {
            authorization.note_refusal(status, headers);
        }
    }
}

// The credential of a server's requests, where it changes while the gateway runs: a token of the
// gateway, or of the user that the client serves. It is sent in `Authorization` alone, to the
// server's origin alone.

/// A credential at a server.
pub trait Authorization: Send + Sync + 'static {
    /// Returns the name of the header.
    fn name(&self) -> &HeaderName;

    /// Returns the current value of the header; `None` without one. No I/O.
    fn header(&self) -> Option<HeaderValue>;

    /// Returns the same if it can be used. Starts its renewal if it expires soon. No I/O.
    fn ready_header(&self) -> Option<HeaderValue>;

    /// Waits until the credential can be used, or returns why it cannot.
    fn prepare(&self) -> BoxFuture<'_, Result<(), String>>;

    /// Records the headers of a response with status 401 or 403.
    fn note_refusal(&self, status: StatusCode, headers: &HeaderMap);

    /// Replaces a value that the server rejected. Returns whether there is another.
    fn renew(&self, rejected: Option<HeaderValue>) -> BoxFuture<'_, bool>;

    /// Returns the caller's error after a failure for lack of a usable credential.
    fn explain(&self, failure: UpstreamError) -> BoxFuture<'_, UpstreamError> {
        Box::pin(std::future::ready(failure))
    }
}
