//! Why a call to an upstream gave no answer: whose fault, whether it may have run, and words for a
//! person.

use std::borrow::Cow;
use std::time::Duration;

use lockgate_admission::reader::NoMemory;
use lockgate_egress::SendError;

/// No answer. `sent` is what decides whether anybody may try again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind}: {words}")]
pub struct UpstreamError {
    pub kind: Kind,
    /// The request may have reached the server.
    pub sent: bool,
    /// What happened, for the caller; no secrets and no addresses.
    pub words: Cow<'static, str>,
    /// When trying again makes sense.
    pub retry_after: Option<Duration>,
}

/// What kind of failure it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Kind {
    /// Not connected: down, starting, disabled, or the breaker is open.
    #[error("unavailable")]
    Unavailable,
    /// The connection broke while the call ran.
    #[error("connection lost")]
    Lost,
    #[error("timed out")]
    Timeout,
    /// What it sent is not an answer to what was asked.
    #[error("broken answer")]
    Garbage,
    /// Its answer is larger than allowed.
    #[error("answer too large")]
    TooLarge,
    /// The gateway has no memory for its answer.
    #[error("no memory for the answer")]
    NoMemory,
    /// Too many calls are running and waiting already.
    #[error("overloaded")]
    Overloaded,
    /// All connections that clients may have of their own are in use.
    #[error("no connection for the client")]
    ClientConnections,
    /// Its places are all taken, and it has said nothing for a while.
    #[error("stalled")]
    Stalled,
    /// Too many calls wait in the whole gateway.
    #[error("busy")]
    Busy,
    /// The server wants credentials that it was not given.
    #[error("needs authorization")]
    NeedsAuth,
    /// The server answered that its session is gone.
    #[error("session lost")]
    SessionLost,
    /// The server has no such resource.
    #[error("not found")]
    NotFound,
}

impl Kind {
    /// One of few words, for `error.type` of spans and metrics.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Unavailable => "unavailable",
            Self::Lost => "connection_lost",
            Self::Timeout => "timeout",
            Self::Garbage => "invalid_response",
            Self::TooLarge => "response_too_large",
            Self::NoMemory => "no_memory",
            Self::Overloaded => "overloaded",
            Self::ClientConnections => "client_connections",
            Self::Stalled => "stalled",
            Self::Busy => "busy",
            Self::NeedsAuth => "authorization_required",
            Self::SessionLost => "session_lost",
            Self::NotFound => "not_found",
        }
    }
}

/// A request that got no answer.
impl From<SendError> for UpstreamError {
    fn from(error: SendError) -> Self {
        let kind = if error.sent { Kind::Lost } else { Kind::Unavailable };
        let failure = Self::new(kind, error.to_string());
        if error.sent { failure.after_send() } else { failure }
    }
}

impl From<NoMemory> for UpstreamError {
    fn from(_: NoMemory) -> Self {
        Self::no_memory()
    }
}

impl UpstreamError {
    #[must_use]
    pub fn new(kind: Kind, words: impl Into<Cow<'static, str>>) -> Self {
        Self { kind, sent: false, words: words.into(), retry_after: None }
    }

    /// There is no room for what the server sent, beside what others hold.
    #[must_use]
    pub fn no_memory() -> Self {
        Self::new(Kind::NoMemory, lockgate_admission::budget::DROPPED).after_send()
    }

    /// Too many large messages wait to be scanned.
    pub(crate) fn no_turn() -> Self {
        let words = "the answer was dropped, because too many large messages wait to be read; what \
            was called may have had its effect";
        Self::new(Kind::NoMemory, words).after_send()
    }

    /// The same failure of a request that may have reached the server.
    #[must_use]
    pub fn after_send(mut self) -> Self {
        self.sent = true;
        self
    }

    #[must_use]
    pub fn retry_after(mut self, wait: Duration) -> Self {
        self.retry_after = Some(wait);
        self
    }

    /// Whether there was no place for the call.
    #[must_use]
    pub fn is_refusal(&self) -> bool {
        matches!(self.kind, Kind::Overloaded | Kind::ClientConnections | Kind::Stalled | Kind::Busy)
    }

    /// Whether the breaker counts it: the server's transport failed, rather than the call or our
    /// own bounds.
    #[must_use]
    pub fn is_transport(&self) -> bool {
        matches!(self.kind, Kind::Lost | Kind::Timeout | Kind::Garbage)
            || self.kind == Kind::Unavailable && self.retry_after.is_none()
    }
}
