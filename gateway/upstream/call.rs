//! An era-neutral call to a server, its answer, and the way back to the client while it runs.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use lockgate_admission::CallerId;
use lockgate_protocol::jsonrpc::{Outcome, Request};
use lockgate_protocol::method::Method;
use lockgate_protocol::revision::Era;
use lockgate_protocol::scan::Member;
use lockgate_telemetry::{CallTrace, ToolMetrics};

use crate::caller_view::CallerView;
use crate::future::BoxFuture;
use crate::server_id::ServerId;
use crate::voucher::Voucher;

/// One request for a server. Borrowed parts live as long as the call; dropping its future cancels
/// it in the server's way.
pub struct Call<'a> {
    pub method: Method,
    /// The server's own tool or prompt name, resource URI or task id.
    pub target: &'a str,
    /// The request as the client sent it; members of its `params` are copied unless replaced.
    pub request: &'a Request,
    /// Members of `params` with another value for this hop, as JSON text; `None` leaves the member
    /// out.
    pub replaced: &'a [(&'a str, Option<Vec<u8>>)],
    pub caller: &'a Caller,
    /// Who calls and what they may see, for built-in servers; `None` where nobody in particular
    /// calls.
    pub caller_view: Option<&'a dyn CallerView>,
    /// How to reach the client while the call runs; without it nobody listens.
    pub channel: Option<Arc<dyn ClientChannel>>,
    /// Takes the answer piece by piece when it is large; without it nobody can.
    pub sink: Option<Arc<dyn ResponseSink>>,
    /// The tool that is called, as it is counted.
    pub tool: Option<Arc<ToolMetrics>>,
    /// Where it stands in a trace.
    pub trace: Option<CallTrace>,
    /// Instead of the server's own timeout.
    pub timeout: Option<Duration>,
}

impl Call<'_> {
    /// The arguments as this hop gets them, as JSON text: those that policy wrote instead, or the
    /// client's own.
    #[must_use]
    pub fn arguments(&self) -> Option<&[u8]> {
        match self.replaced.iter().find(|(name, _)| *name == "arguments") {
            Some((_, replaced)) => replaced.as_deref(),
            None => self.request.param("arguments"),
        }
    }
}

/// What a server must know of the client that it is called for.
#[derive(Clone)]
pub struct Caller {
    /// As whom it takes turns.
    pub id: CallerId,
    /// Tells servers that want to know who it is; none where no server does.
    pub voucher: Option<Arc<dyn Voucher>>,
    /// JSON text of its `ClientCapabilities`; `{}` when it declared none.
    pub capabilities: Bytes,
    /// It declared that a server may ask it things (elicitation, sampling, roots).
    pub interactive: bool,
    /// The least severe log level it wants during the call.
    pub log_level: Option<LogLevel>,
    /// Its legacy session, for servers that keep state for each session.
    pub session: Option<Arc<dyn ClientSession>>,
    pub era: Era,
}

/// The way back to a client during a call. None of its methods waits for a slow reader, except
/// `ask`.
pub trait ClientChannel: Send + Sync {
    /// Stands for the caller's principal; 0 where that is not known.
    fn principal(&self) -> u64 {
        0
    }
    /// The client gave a progress token.
    fn wants_progress(&self) -> bool;
    /// A `notifications/progress` of the server for this call; the token in it is the gateway's.
    fn progress(&self, note: &Request);
    /// A `notifications/message` of the server for this call.
    fn log(&self, note: &Request);
    /// The server has ended its stream and will give its answer later, on another one: after this
    /// pause, where the server names one.
    fn waiting(&self, pause: Option<Duration>);
    /// Asks the client (`elicitation/create`, `sampling/createMessage`, `roots/list`): `params` as
    /// JSON text. Gives the JSON text of the result.
    fn ask(&self, method: Method, params: Bytes) -> BoxFuture<'_, Result<Bytes, QuestionError>>;
}

/// Takes a large answer while it comes in, so that nobody keeps all of it.
pub trait ResponseSink: Send + Sync {
    /// Whether the sink takes the answer to the request `id`, which begins with `start`. The
    /// server's `write` follows then.
    fn begin(&self, id: u64, start: &[u8]) -> bool;

    /// Whether the client has a part of the answer, so that the call cannot be made again.
    fn has_begun(&self) -> bool;

    /// Takes the next piece. Waits while the client does not read.
    fn write(&self, piece: Bytes) -> BoxFuture<'_, Result<(), SinkError>>;

    /// The answer is complete.
    fn finish(&self) -> BoxFuture<'_, Result<(), SinkError>>;

    /// How long the client has kept the server waiting.
    fn client_wait(&self) -> Duration;
}

/// Why a sink takes nothing more.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SinkError {
    #[error("the server's answer is not valid: {0}")]
    Invalid(String),
    #[error("the client is gone")]
    ClientGone,
}

/// A legacy client session, as a server that has a connection of its own for it sees it.
pub trait ClientSession: Send + Sync + 'static {
    /// What distinguishes it from every other session.
    fn key(&self) -> u64;
    /// Whether it is beside another session of the same client.
    fn is_further(&self) -> bool {
        false
    }
    /// Its client tells when its roots change.
    fn tells_roots_changes(&self) -> bool {
        false
    }
    /// Its connection at a server may have lists of its own from now on
    /// ([`crate::Upstream::own_lists`]).
    fn note_own_lists(&self, _server: &ServerId) {}
    /// An elicitation of a server that led elsewhere is complete, by the server's own id.
    fn complete_elicitation(&self, _server: &ServerId, _id: &str) {}
    /// A `notifications/message` of a server that belongs to no call.
    fn log(&self, server: &ServerId, note: &Request);
    /// Asks the client outside of a call, in the name of a server; as [`ClientChannel::ask`].
    fn ask<'a>(
        &'a self,
        server: &'a ServerId,
        method: Method,
        params: Bytes,
    ) -> BoxFuture<'a, Result<Bytes, QuestionError>>;
}

/// On which connection a subscription stands: what is told on it is for its callers alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Subscription {
    /// The one that all clients share.
    Shared,
    /// That of the session with this key.
    Session(u64),
}

/// Whether a server asks things of clients while their calls run, each on a connection of its own,
/// and whose question it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackChannel {
    /// It asks nobody in this way: a modern server asks in its answers.
    None,
    /// Each question comes with the call that it belongs to.
    PerCall,
    /// A question may name no call, so that a connection can carry one such call at a time.
    PerConnection,
}

/// Why a client gave no answer to a question.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuestionError {
    #[error("the client did not declare the capability")]
    Undeclared,
    #[error("the client did not answer in time")]
    Timeout,
    #[error("the client is gone")]
    Gone,
    /// The client's own error.
    #[error("the client refused: {message}")]
    Refused { code: i64, message: String },
    /// The question could not be sent, or its answer does not fit: no decision of the user.
    #[error("{0}")]
    Unusable(String),
}

/// A server's answer, still in the server's words.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The text that the spans of `outcome` point into.
    pub text: Bytes,
    pub outcome: Outcome,
    pub kind: AnswerKind,
}

/// What a result is, by its `resultType` (absent means complete).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerKind {
    Complete,
    InputRequired,
    Task,
    /// The outcome is an error object.
    Error,
}

/// Severity of log messages, least severe first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum LogLevel {
    Debug,
    Info,
    Notice,
    Warning,
    Error,
    Critical,
    Alert,
    Emergency,
}

impl LogLevel {
    pub const ALL: [Self; 8] = [
        Self::Debug,
        Self::Info,
        Self::Notice,
        Self::Warning,
        Self::Error,
        Self::Critical,
        Self::Alert,
        Self::Emergency,
    ];

    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Notice => "notice",
            Self::Warning => "warning",
            Self::Error => "error",
            Self::Critical => "critical",
            Self::Alert => "alert",
            Self::Emergency => "emergency",
        }
    }

    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|l| l.as_str() == text)
    }
}

impl Answer {
    /// The top-level members of the result; none for an error.
    #[must_use]
    pub fn members(&self) -> &[Member] {
        match &self.outcome {
            Outcome::Result(_, members) => members,
            Outcome::Error(_) => &[],
        }
    }

    /// A top-level member of the result as JSON text.
    #[must_use]
    pub fn member(&self, name: &str) -> Option<&[u8]> {
        lockgate_protocol::scan::find(self.members(), &self.text, name)
            .map(|span| span.of(&self.text))
    }
}
