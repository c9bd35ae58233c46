//! The interface between listener and request path, for every transport: requests of clients, their
//! replies, and the differences between the eras.

use std::borrow::Cow;
use std::pin::Pin;

use bytes::Bytes;
use futures_util::Stream;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use lockgate_authn::{Credentials, Peer, Principal, Resource};
use lockgate_protocol::code;
use lockgate_protocol::modern::{METHOD_HEADER, NAME_HEADER, SESSION_HEADER, VERSION_HEADER};
use lockgate_protocol::revision::{Era, Revision};

/// A URL that serves MCP.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Endpoint {
    /// `/mcp`: every server, names and URIs namespaced.
    All,
    /// `/servers/{slug}/mcp`: one server, its own names and URIs unchanged.
    Server(String),
    /// `/agents/{id}/mcp`: the servers assigned to an agent, names and URIs namespaced.
    Agent(NamedPath),
    /// `/endpoints/{name}/mcp`: chosen items of all servers, named by the operator.
    Composed(NamedPath),
}

/// `agents/{id}` or `endpoints/{name}`, which is never a valid slug.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NamedPath(String);

impl NamedPath {
    /// Returns the id of the agent, or the name of the endpoint.
    pub fn name(&self) -> &str {
        self.0.split_once('/').map_or("", |(_, name)| name)
    }
}

impl Endpoint {
    /// Returns the endpoint of an agent, which may not exist.
    pub fn agent(id: &str) -> Self {
        Self::Agent(NamedPath(format!("agents/{id}")))
    }

    /// Returns the path of the endpoint's URL.
    pub fn path(&self) -> Cow<'static, str> {
        self.resource().path()
    }

    /// Returns the path in records, which omit that of `/mcp`.
    pub(crate) fn recorded_path(&self) -> Cow<'static, str> {
        if *self == Self::All { Cow::Borrowed("") } else { self.path() }
    }

    /// Returns the endpoint with this path, which may not exist.
    pub fn parse(path: &str) -> Option<Self> {
        if path == "/mcp" {
            return Some(Self::All);
        }
        let (endpoint, rest) = Self::split_path(path)?;
        (rest == "mcp").then_some(endpoint)
    }

    /// Returns the endpoint of a server or agent, which may not exist, and the rest of the path.
    pub fn split_path(path: &str) -> Option<(Self, &str)> {
        let (kind, rest) = path.strip_prefix('/')?.split_once('/')?;
        let (name, rest) = rest.split_once('/')?;
        if !is_plain(name) {
            return None;
        }
        let endpoint = match kind {
            "servers" => Self::Server(name.to_owned()),
            "agents" => Self::agent(name),
            "endpoints" => Self::Composed(NamedPath(format!("endpoints/{name}"))),
            _ => return None,
        };
        Some((endpoint, rest))
    }

    /// Returns the endpoint as an OAuth resource.
    pub fn resource(&self) -> Resource<'_> {
        let (kind, name) = match self {
            Self::All => return Resource::All,
            Self::Server(slug) => ("servers", &**slug),
            Self::Agent(NamedPath(path)) | Self::Composed(NamedPath(path)) => {
                path.split_once('/').unwrap_or_default()
            }
        };
        Resource::Named { kind, name }
    }

    /// Returns whether names and URIs are prefixed with their server's slug.
    pub fn is_namespaced(&self) -> bool {
        !matches!(self, Self::Server(_))
    }

    /// Returns whether access is limited to some of an organisation's members.
    pub fn is_of_agent(&self) -> bool {
        matches!(self, Self::Agent(_))
    }

    /// Returns whether the caller's credential opens the endpoint, if it exists: a key created for
    /// an agent opens only that agent's.
    pub(crate) fn is_open_to(&self, caller: &Principal) -> bool {
        match (caller.only_agent(), self) {
            (None, _) => true,
            (Some(only), Self::Agent(agent)) => agent.name() == only,
            (Some(_), _) => false,
        }
    }

    /// Returns the endpoint's bytes for binding sealed tokens.
    pub(crate) fn bound(&self) -> &[u8] {
        match self {
            Self::All => b"",
            Self::Server(slug) => slug.as_bytes(),
            Self::Agent(NamedPath(path)) | Self::Composed(NamedPath(path)) => path.as_bytes(),
        }
    }
}

/// Returns whether a name needs no escape in a URL.
fn is_plain(name: &str) -> bool {
    (1..=128).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.~".contains(&b))
}

/// The transport of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    Mcp,
    /// The REST API, in process.
    Rest,
    /// tRPC, in process. A refusal by policy is an error for its clients, not a tool result.
    Trpc,
}

impl Transport {
    /// Returns the name in records, which omit MCP.
    pub(crate) fn name(self) -> Option<&'static str> {
        match self {
            Self::Mcp => None,
            Self::Rest => Some("rest"),
            Self::Trpc => Some("trpc"),
        }
    }
}

/// A client's HTTP exchange, or a line of stdio.
#[derive(Clone)]
pub struct Exchange {
    pub endpoint: Endpoint,
    pub transport: Transport,
    pub peer: Peer,
    /// The credentials sent over HTTP; `None` if they belong to a connection.
    pub credentials: Option<Credentials>,
    /// The authenticated sender.
    pub principal: Principal,
    pub kind: ExchangeKind,
    /// Request headers; empty on stdio.
    pub headers: HeaderMap,
    /// Set if the transport supports [`ReplyBody::Streamed`].
    pub takes_streamed_body: bool,
}

/// The kind of an exchange.
#[derive(Clone)]
pub enum ExchangeKind {
    /// A message, or in 2025-03-26 a batch of messages.
    Post(Bytes),
    /// A legacy client's request to open the stream for messages outside of calls, or to resume a
    /// stream (`Last-Event-ID`).
    Get,
    /// Like `Get`, for a client with an event stream that is already counted
    /// ([`crate::Gateway::stream`]).
    Listen,
    /// A legacy client's request to end its session.
    Delete,
}

/// The reply to an exchange. Small, because every step of a request passes it on.
pub struct Reply {
    pub status: StatusCode,
    /// Boxed, because few replies have headers of their own.
    headers: Option<Box<HeaderMap>>,
    pub body: ReplyBody,
}

pub enum ReplyBody {
    /// A JSON message. Consecutive chunks are parts of one text.
    Message(Text),
    /// A JSON message that is still arriving. Dropping the body signals that the client has
    /// disconnected.
    Streamed(StreamedBody),
    /// Another gateway's response as it arrives, with its own content type. Dropping the body
    /// signals that the client has disconnected.
    Relayed(StreamedBody),
    /// No body: 202 for notifications and responses, 204 and the like otherwise.
    Empty,
    /// A stream of messages. Dropping it signals that the client has disconnected.
    Events(Events),
}

impl From<ReplyBody> for Reply {
    fn from(body: ReplyBody) -> Self {
        Self { status: StatusCode::OK, headers: None, body }
    }
}

impl Reply {
    pub fn message(text: impl Into<Text>) -> Self {
        ReplyBody::Message(text.into()).into()
    }

    pub fn events(events: Events) -> Self {
        ReplyBody::Events(events).into()
    }

    pub fn empty(status: StatusCode) -> Self {
        Self { status, headers: None, body: ReplyBody::Empty }
    }

    /// Returns 202, for an accepted notification or response.
    pub fn accepted() -> Self {
        Self::empty(StatusCode::ACCEPTED)
    }

    #[must_use]
    pub fn with_status(self, status: StatusCode) -> Self {
        Self { status, ..self }
    }

    #[must_use]
    pub fn with_headers(self, headers: HeaderMap) -> Self {
        let headers = if headers.is_empty() { None } else { Some(Box::new(headers)) };
        Self { headers, ..self }
    }

    pub fn header(&self, name: &HeaderName) -> Option<&HeaderValue> {
        self.headers.as_ref()?.get(name)
    }

    pub fn take_headers(&mut self) -> HeaderMap {
        self.headers.take().map_or_else(HeaderMap::new, |headers| *headers)
    }
}

/// A JSON text, in one piece or with a large middle that is not copied.
#[derive(Clone, Debug)]
pub enum Text {
    Whole(Bytes),
    Spliced(Box<[Bytes; 3]>),
    /// Like `Spliced`, with a middle that takes no additional memory: it is retained anyway, such
    /// as a list, or counts separately in the budget, such as a server's large response.
    Shared(Box<[Bytes; 3]>),
}

/// The parts of a JSON text, in order. An error is final and leaves the text incomplete.
pub type StreamedBody = Pin<Box<dyn Stream<Item = Result<Bytes, BodyError>> + Send>>;

/// The server's response broke off or turned out to be invalid after its start was forwarded.
#[derive(Debug, thiserror::Error)]
#[error("the response failed")]
pub struct BodyError;

/// Messages for an event stream.
pub type Events = Pin<Box<dyn Stream<Item = Outgoing> + Send>>;

/// An event of an event stream.
#[derive(Clone, Debug, Default)]
pub struct Outgoing {
    /// Event id, on resumable legacy streams.
    pub id: Option<String>,
    /// A JSON message; empty for an event with just an id or a delay.
    pub data: Text,
    /// The client's reconnect delay in milliseconds.
    pub retry: Option<u64>,
}

impl From<Text> for Outgoing {
    /// Returns an event without an id, which cannot be resumed.
    fn from(data: Text) -> Self {
        Self { data, ..Self::default() }
    }
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
    /// Returns the chunks of the text; some may be empty.
    pub fn chunks(&self) -> &[Bytes] {
        match self {
            Self::Whole(bytes) => std::slice::from_ref(bytes),
            Self::Spliced(parts) | Self::Shared(parts) => &**parts,
        }
    }

    pub fn len(&self) -> usize {
        match self {
            Self::Whole(bytes) => bytes.len(),
            Self::Spliced(parts) | Self::Shared(parts) => parts.iter().map(Bytes::len).sum(),
        }
    }

    /// Returns the bytes of memory needed by this text alone.
    pub fn own_len(&self) -> usize {
        match self {
            Self::Shared(parts) => self.len() - parts[1].len(),
            other => other.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the first chunk.
    pub fn start(&self) -> &[u8] {
        self.chunks().first().map_or(&[], |chunk| chunk)
    }

    /// Returns the text in one piece. Copies unless the text is whole.
    pub fn into_bytes(self) -> Bytes {
        match self {
            Self::Whole(bytes) => bytes,
            Self::Spliced(parts) | Self::Shared(parts) => parts.concat().into(),
        }
    }
}

// Headers that the request path uses.

pub static SESSION: HeaderName = HeaderName::from_static(SESSION_HEADER);
pub static VERSION: HeaderName = HeaderName::from_static(VERSION_HEADER);
pub static METHOD: HeaderName = HeaderName::from_static(METHOD_HEADER);
pub static NAME: HeaderName = HeaderName::from_static(NAME_HEADER);

/// Returns the trimmed value of a header, if it is text.
pub fn header<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    Some(headers.get(name)?.to_str().ok()?.trim())
}

/// Returns the headers that carry a legacy session id.
pub fn session_header(id: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    if let Ok(value) = HeaderValue::from_str(id) {
        headers.insert(SESSION.clone(), value);
    }
    headers
}

/// The client's side of the protocol: what distinguishes clients with a session from clients whose
/// requests describe themselves, for the steps between the two edges.
pub(crate) struct ClientProtocol {
    /// Results have a type, cache hints and our server info. Sessions got the info in `initialize`.
    pub(crate) describes_results: bool,
    /// A question is the result of a request, and the client's next request carries the answer.
    /// Otherwise it is a request on a stream of the session.
    pub(crate) asks_by_result: bool,
    /// Tasks are those of the extension, not those of 2025-11-25.
    pub(crate) has_task_extension: bool,
    /// The error code for a resource that does not exist.
    pub(crate) missing_resource: i64,
    /// The HTTP status of an error for an unknown method.
    pub(crate) unknown_method: StatusCode,
}

pub(crate) static MODERN: ClientProtocol = ClientProtocol {
    describes_results: true,
    asks_by_result: true,
    has_task_extension: true,
    missing_resource: code::INVALID_PARAMS,
    unknown_method: StatusCode::NOT_FOUND,
};

pub(crate) static LEGACY: ClientProtocol = ClientProtocol {
    describes_results: false,
    asks_by_result: false,
    has_task_extension: false,
    missing_resource: code::RESOURCE_NOT_FOUND,
    unknown_method: StatusCode::OK,
};

impl ClientProtocol {
    pub(crate) fn of(revision: Revision) -> &'static Self {
        match revision.era() {
            Era::Modern => &MODERN,
            Era::Legacy => &LEGACY,
        }
    }
}
