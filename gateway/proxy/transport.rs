//! Between the listener and the request path: what comes in from a client and what goes back, for
//! every transport.

use std::borrow::Cow;
use std::pin::Pin;

use bytes::Bytes;
use futures_util::Stream;
use http::{HeaderMap, StatusCode};
use lockgate_authn::{Credentials, Peer, Principal, Resource};

/// A URL that serves MCP.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Endpoint {
    /// `/mcp`: every server, names and URIs namespaced.
    All,
    /// `/servers/{slug}/mcp`: one server, its own names and URIs unchanged.
    Server(String),
    /// `/agents/{id}/mcp`: the servers that are assigned to an agent, names and URIs namespaced.
    Agent(AgentPath),
}

/// `agents/{id}`: an agent as its URL names it, which no slug looks like.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AgentPath(String);

impl AgentPath {
    /// The characters that prefix an id.
    const PREFIX: &'static str = "agents/";

    #[must_use]
    pub fn new(id: &str) -> Self {
        Self([Self::PREFIX, id].concat())
    }

    #[must_use]
    pub fn id(&self) -> &str {
        self.0.strip_prefix(Self::PREFIX).unwrap_or("")
    }
}

impl Endpoint {
    /// The path of its URL.
    #[must_use]
    pub fn path(&self) -> Cow<'static, str> {
        match self {
            Self::All => Cow::Borrowed("/mcp"),
            Self::Server(slug) => Cow::Owned(format!("/servers/{slug}/mcp")),
            Self::Agent(agent) => Cow::Owned(format!("/{}/mcp", agent.0)),
        }
    }

    /// The endpoint as a resource of OAuth.
    #[must_use]
    pub fn resource(&self) -> Resource<'_> {
        match self {
            Self::All => Resource::All,
            Self::Server(slug) => Resource::Server(slug),
            Self::Agent(agent) => Resource::Agent(agent.id()),
        }
    }

    /// Whether names and URIs carry their server's slug here.
    pub(crate) fn is_namespaced(&self) -> bool {
        !matches!(self, Self::Server(_))
    }

    /// Whether only some of an organisation's members may use it.
    pub(crate) fn is_of_agent(&self) -> bool {
        matches!(self, Self::Agent(_))
    }

    /// What is bound to the endpoint is bound to this.
    pub(crate) fn bound(&self) -> &[u8] {
        match self {
            Self::All => b"",
            Self::Server(slug) => slug.as_bytes(),
            Self::Agent(agent) => agent.0.as_bytes(),
        }
    }
}

/// What a request came over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// MCP itself.
    Mcp,
    /// The REST API, in process.
    Rest,
    /// tRPC, in process. To its clients a refusal by policy is an error, and no result of a tool.
    Trpc,
}

impl Transport {
    /// As records have it, which say nothing of MCP.
    pub(crate) fn name(self) -> Option<&'static str> {
        match self {
            Self::Mcp => None,
            Self::Rest => Some("rest"),
            Self::Trpc => Some("trpc"),
        }
    }
}

/// What a client sent: one HTTP exchange, or one line of stdio.
pub struct Exchange {
    pub endpoint: Endpoint,
    pub transport: Transport,
    pub peer: Peer,
    /// The credentials that came with it over HTTP; `None` where they belong to a connection.
    pub credentials: Option<Credentials>,
    /// Whom the gateway found behind the exchange's own credentials.
    pub principal: Principal,
    pub kind: ExchangeKind,
    /// Request headers; empty on stdio.
    pub headers: HeaderMap,
    /// The transport can carry [`Reply::StreamedMessage`].
    pub takes_streamed_body: bool,
}

/// What the exchange is.
pub enum ExchangeKind {
    /// A message, or in 2025-03-26 a batch of them.
    Post(Bytes),
    /// A legacy client opens the stream for messages outside calls, or resumes one
    /// (`Last-Event-ID`).
    Get,
    /// The same for a client whose own event stream is counted already
    /// ([`crate::Gateway::stream`]).
    Listen,
    /// A legacy client ends its session.
    Delete,
}

/// What goes back.
pub enum Reply {
    /// One JSON message. Consecutive chunks are parts of one text.
    Message { status: StatusCode, headers: HeaderMap, body: Text },
    /// One JSON message that is still coming in. Dropping it means that the client has gone.
    StreamedMessage { headers: HeaderMap, body: StreamedBody },
    /// What another gateway answered, as it comes, with its own content type. Dropping it means
    /// that the client has gone.
    Relayed { status: StatusCode, headers: HeaderMap, body: StreamedBody },
    /// No body: 202 for notifications and responses, 204 and the like for the rest.
    Empty { status: StatusCode, headers: HeaderMap },
    /// Messages as they come, ending when the stream ends. Dropping it means that the client has
    /// gone.
    Stream { headers: HeaderMap, events: Events },
}

impl Reply {
    /// 202: a notification or a response was taken.
    pub(crate) fn accepted() -> Self {
        Self::Empty { status: StatusCode::ACCEPTED, headers: HeaderMap::new() }
    }
}

/// One JSON text, in one piece or with a large middle that is not copied.
#[derive(Clone, Debug)]
pub enum Text {
    Whole(Bytes),
    Spliced([Bytes; 3]),
    /// The same with a middle that takes no memory of its own: it is kept anyway, such as a list,
    /// or it counts by itself for as long as it is there, such as a large answer of a server.
    Shared([Bytes; 3]),
}

/// The parts of one JSON text, in order. After an error nothing more comes, and the text is not
/// complete.
pub type StreamedBody = Pin<Box<dyn Stream<Item = Result<Bytes, BodyError>> + Send>>;

/// The server's answer broke off, or turned out to be none, after its start had been passed on.
#[derive(Debug, thiserror::Error)]
#[error("the answer broke off")]
pub struct BodyError;

/// Messages for an event stream.
pub type Events = Pin<Box<dyn Stream<Item = Outgoing> + Send>>;

/// One event.
#[derive(Clone, Debug, Default)]
pub struct Outgoing {
    /// Event id, on legacy streams that can be resumed.
    pub id: Option<String>,
    /// A JSON message; empty for an event that only carries an id or a delay.
    pub data: Text,
    /// Milliseconds that the client should wait before it reconnects.
    pub retry: Option<u64>,
}

impl Default for Text {
    fn default() -> Self {
        Self::Whole(Bytes::new())
    }
}

impl From<Bytes> for Text {
    fn from(bytes: Bytes) -> Self {
        Self::Whole(bytes)
    }
}

impl From<Vec<u8>> for Text {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Whole(bytes.into())
    }
}

impl Text {
    /// The chunks that the text is made of; some may be empty.
    #[must_use]
    pub fn chunks(&self) -> &[Bytes] {
        match self {
            Self::Whole(bytes) => std::slice::from_ref(bytes),
            Self::Spliced(parts) | Self::Shared(parts) => parts,
        }
    }

    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Whole(bytes) => bytes.len(),
            Self::Spliced(parts) | Self::Shared(parts) => parts.iter().map(Bytes::len).sum(),
        }
    }

    /// Bytes of memory that only this text needs.
    #[must_use]
    pub fn own_len(&self) -> usize {
        match self {
            Self::Shared([head, _, tail]) => head.len() + tail.len(),
            other => other.len(),
        }
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The first piece of the text.
    #[must_use]
    pub fn start(&self) -> &[u8] {
        match self {
            Self::Whole(bytes) | Self::Spliced([bytes, ..]) | Self::Shared([bytes, ..]) => bytes,
        }
    }

    /// The text in one piece; copies when it is spliced.
    #[must_use]
    pub fn into_bytes(self) -> Bytes {
        match self {
            Self::Whole(bytes) => bytes,
            Self::Spliced(parts) | Self::Shared(parts) => parts.concat().into(),
        }
    }
}
