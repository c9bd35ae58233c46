//! Errors of calls to upstreams: the cause, whether the call may have run, and a message.

use std::borrow::Cow;
use std::time::{Duration, SystemTime};

use lockgate_admission::reader::NoMemory;
use lockgate_egress::{BodyError, SendError};
use lockgate_protocol::jsonrpc::ErrorObject;
use lockgate_protocol::method::Method;

/// What functions return that call a server.
pub(crate) type Result<T, E = UpstreamError> = std::result::Result<T, E>;

/// A call without an answer. `sent` decides whether a retry is allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind}: {words}")]
pub struct UpstreamError {
    pub kind: UpstreamErrorKind,
    /// Whether the request may have reached the server.
    pub sent: bool,
    /// A message for the caller, without secrets and addresses.
    pub words: Cow<'static, str>,
    /// When a retry makes sense.
    pub retry_after: Option<Duration>,
    /// How the caller connects an account, if the call lacks one.
    pub connect: Option<Box<ConnectPrompt>>,
}

/// The way for a caller to connect an account at a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectPrompt {
    /// The page to open in a browser.
    pub url: String,
    /// The state of the account: `needs_connect` or `needs_scope`.
    pub state: &'static str,
    pub scopes: Vec<String>,
    /// When the link expires.
    pub expires_at: SystemTime,
    /// How long a call waits for the account after its client was asked to open the page.
    pub waits: Duration,
}

lockgate_text::words! {
    /// The kind of a failure.
    #[derive(Hash, thiserror::Error)]
    pub enum UpstreamErrorKind {
        /// Not connected: down, starting, disabled, or the breaker is open.
        #[error("unavailable")]
        Unavailable = "unavailable",
        /// The connection broke during the call.
        #[error("connection lost")]
        Lost = "connection_lost",
        #[error("timed out")]
        Timeout = "timeout",
        /// The response does not match the request.
        #[error("invalid response")]
        Garbage = "invalid_response",
        /// The response exceeds the size limit.
        #[error("response too large")]
        TooLarge = "response_too_large",
        /// The gateway has no memory for the response.
        #[error("no memory for the response")]
        NoMemory = "no_memory",
        /// Too many calls are running and waiting.
        #[error("overloaded")]
        Overloaded = "overloaded",
        /// All connections that belong to single clients are in use.
        #[error("no connection for the client")]
        ClientConnections = "client_connections",
        /// All permits are taken, and the server has been silent for a while.
        #[error("stalled")]
        Stalled = "stalled",
        /// Too many calls are waiting in the whole gateway.
        #[error("busy")]
        Busy = "busy",
        /// The server requires credentials that it was not given.
        #[error("authorization required")]
        NeedsAuth = "authorization_required",
        /// The server reported that its session is gone.
        #[error("session lost")]
        SessionLost = "session_lost",
        /// The server has no such resource.
        #[error("not found")]
        NotFound = "not_found",
    }
}

/// The error for a request that got no response.
impl From<SendError> for UpstreamError {
    fn from(error: SendError) -> Self {
        let kind =
            if error.sent { UpstreamErrorKind::Lost } else { UpstreamErrorKind::Unavailable };
        let failure = kind.error(error.to_string());
        if error.sent { failure.after_send() } else { failure }
    }
}

/// The error for a body that broke off or is too long.
impl From<BodyError> for UpstreamError {
    fn from(error: BodyError) -> Self {
        let words = error.to_string();
        match error {
            BodyError::TooLarge(_) => Self::too_large(words),
            BodyError::Broken(_) => Self::lost(words),
        }
    }
}

impl From<NoMemory> for UpstreamError {
    fn from(_: NoMemory) -> Self {
        Self::no_memory()
    }
}

impl UpstreamErrorKind {
    /// Returns an error that is not marked as sent (see [`UpstreamError::after_send`]).
    pub fn error(self, words: impl Into<Cow<'static, str>>) -> UpstreamError {
        let words = words.into();
        UpstreamError { kind: self, sent: false, words, retry_after: None, connect: None }
    }
}

impl UpstreamError {
    /// Returns the error for a response that does not match its request.
    pub fn garbage(words: impl Into<Cow<'static, str>>) -> Self {
        UpstreamErrorKind::Garbage.error(words).after_send()
    }

    /// Returns the error for a connection that broke after the request was sent.
    pub fn lost(words: impl Into<Cow<'static, str>>) -> Self {
        UpstreamErrorKind::Lost.error(words).after_send()
    }

    /// Returns the error for a request without a response in time.
    pub fn timeout(words: impl Into<Cow<'static, str>>) -> Self {
        UpstreamErrorKind::Timeout.error(words).after_send()
    }

    pub(crate) fn too_large(words: impl Into<Cow<'static, str>>) -> Self {
        UpstreamErrorKind::TooLarge.error(words).after_send()
    }

    /// Returns the error for a message that a connection accepts no more.
    pub(crate) fn closed() -> Self {
        UpstreamErrorKind::Unavailable.error("the connection to the server is closed")
    }

    /// Returns the error for a message that did not fit into the memory budget.
    pub fn no_memory() -> Self {
        UpstreamErrorKind::NoMemory.error(lockgate_admission::budget::DROPPED).after_send()
    }

    /// Returns the error for a message dropped because too many large messages wait for parsing.
    pub(crate) fn no_turn() -> Self {
        let words = "the response was dropped because too many large messages are waiting to be \
            parsed; the call may have taken effect";
        UpstreamErrorKind::NoMemory.error(words).after_send()
    }

    /// Marks the request as possibly received by the server.
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

    /// Creates the error for a request of the gateway that the server refused.
    pub(crate) fn refused(method: Method, error: ErrorObject, text: &[u8]) -> Self {
        let message: String =
            error.message(text).chars().filter(|c| !c.is_control()).take(200).collect();
        let words = format!("the server refused {}: {} ({message})", method.as_str(), error.code);
        UpstreamErrorKind::Garbage.error(words)
    }

    /// Reports whether the call was rejected for lack of a permit.
    pub fn is_refusal(&self) -> bool {
        matches!(
            self.kind,
            UpstreamErrorKind::Overloaded
                | UpstreamErrorKind::ClientConnections
                | UpstreamErrorKind::Stalled
                | UpstreamErrorKind::Busy
        )
    }

    /// Reports whether the breaker counts the failure: the server's transport failed, rather than
    /// the call or a limit of the gateway.
    pub fn is_transport(&self) -> bool {
        matches!(
            self.kind,
            UpstreamErrorKind::Lost | UpstreamErrorKind::Timeout | UpstreamErrorKind::Garbage
        ) || self.kind == UpstreamErrorKind::Unavailable && self.retry_after.is_none()
    }
}
