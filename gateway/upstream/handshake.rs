//! Detects a server's era and opens a connection in it. Only `server/discover` and `initialize` are
//! sent as probes, never a request with effects. A response that is inconclusive about the era is
//! not interpreted.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use lockgate_protocol::jsonrpc::{Outcome, Response};
use lockgate_protocol::legacy;
use lockgate_protocol::meta::Sender;
use lockgate_protocol::method::Method;
use lockgate_protocol::modern::{self, Common};
use lockgate_protocol::outbound::Outbound;
use lockgate_protocol::revision::Revision;
use lockgate_protocol::{code, write};
use lockgate_text::json;
use serde_json::Value;

use crate::config::EraChoice;
use crate::connection::{Peer, ServerTransport};
use crate::duplex::Role;
use crate::failure::{Result, UpstreamError, UpstreamErrorKind};
use crate::http::{HttpTransport, Post, Posted, status_failure};
use crate::status::{Stage, StageError};

/// Timeout of a probe on stdio, whose silence means legacy. Programs may still be starting.
const STDIO_PROBE_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout of each handshake request over HTTP, where silence is a failure.
const HTTP_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest handshake response: it is parsed into a tree, which takes many times its size.
const MAX_ANSWER: usize = 1 << 20;

/// The gateway's identity and capabilities for a handshake.
pub(crate) struct Introduction {
    pub(crate) info: Arc<[u8]>,
    /// `ClientCapabilities` for a legacy `initialize`.
    pub(crate) capabilities: Value,
}

enum Probe {
    Modern(Box<Peer>),
    Legacy,
    /// The response is not MCP: legacy, if it is an MCP server at all.
    Foreign(UpstreamError),
    /// Contradictory, or a refusal of the gateway's request; probed once more before giving up.
    Again(String),
    /// Inconclusive, or incompatible.
    Failed(Box<HandshakeError>),
}

impl Probe {
    fn failed(refused: impl Into<HandshakeError>) -> Self {
        Self::Failed(Box::new(refused.into()))
    }

    fn incompatible(words: impl Into<String>) -> Self {
        Self::failed(StageError::new(Stage::Handshake, words))
    }
}

pub(crate) struct HandshakeError {
    pub(crate) trouble: StageError,
    pub(crate) needs_auth: bool,
    /// Restart the server and begin with `initialize`.
    pub(crate) retry_legacy: bool,
    /// Try HTTP+SSE instead of Streamable HTTP.
    pub(crate) maybe_sse: bool,
    /// The server refused `initialize` as a modern server does.
    pub(crate) modern: bool,
}

impl HandshakeError {
    pub(crate) fn new(stage: Stage, words: impl Into<String>) -> Self {
        StageError::new(stage, words).into()
    }
}

impl From<StageError> for HandshakeError {
    fn from(trouble: StageError) -> Self {
        Self { trouble, needs_auth: false, retry_legacy: false, maybe_sse: false, modern: false }
    }
}

impl From<UpstreamError> for HandshakeError {
    fn from(failure: UpstreamError) -> Self {
        let stage = if failure.sent { Stage::Handshake } else { Stage::Connect };
        let needs_auth = failure.kind == UpstreamErrorKind::NeedsAuth;
        Self { needs_auth, ..Self::new(stage, failure.words) }
    }
}

/// Opens a connection over `transport` and returns the server's properties. Uses ids 1 to 3.
pub(crate) async fn open(
    transport: &ServerTransport,
    choice: EraChoice,
    intro: &Introduction,
) -> Result<Peer, HandshakeError> {
    if choice != EraChoice::Legacy {
        let first = probe(transport, intro, 1).await;
        let probed =
            if matches!(first, Probe::Again(_)) { probe(transport, intro, 2).await } else { first };
        match probed {
            Probe::Modern(peer) => return Ok(*peer),
            Probe::Legacy | Probe::Foreign(_) if choice == EraChoice::Auto => {}
            Probe::Foreign(failure) => {
                let words = format!(
                    "{}, which is not the response of a modern server: check the address, or \
                        leave out `era`",
                    failure.words
                );
                return Err(HandshakeError::new(Stage::Handshake, words));
            }
            Probe::Legacy => {
                return Err(HandshakeError::new(
                    Stage::Handshake,
                    "the server supports legacy revisions only; set `era: auto` or `era: legacy`",
                ));
            }
            Probe::Failed(mut refused) => {
                refused.retry_legacy &= choice == EraChoice::Auto;
                return Err(*refused);
            }
            Probe::Again(words) => return Err(HandshakeError::new(Stage::Handshake, words)),
        }
    }
    let refused = match initialize(transport, intro).await {
        Err(refused) => refused,
        welcomed => return welcomed,
    };
    // A slow server may respond to the probe only now, and stay modern from then on.
    if refused.modern
        && choice == EraChoice::Auto
        && let Probe::Modern(peer) = probe(transport, intro, 2).await
    {
        return Ok(*peer);
    }
    Err(refused)
}

async fn probe(transport: &ServerTransport, intro: &Introduction, id: u64) -> Probe {
    let revision = Revision::NEWEST_MODERN;
    let sender = Sender { revision: revision.as_str(), capabilities: b"{}", info: &intro.info };
    let text = Outbound { sender: Some(sender), ..Outbound::default() }.text(id, Method::Discover);
    match transport {
        ServerTransport::Duplex(duplex) => {
            let answer = tokio::time::timeout(
                STDIO_PROBE_TIMEOUT,
                duplex.request(id, text, Role::Call(None), None, false),
            )
            .await;
            match answer {
                Err(_) => Probe::Legacy,
                Ok(Ok(response)) => judge_duplex(&response),
                // Servers on older SDKs exit on receiving a modern request.
                Ok(Err(failure)) if failure.kind == UpstreamErrorKind::Lost => {
                    let words = "the server closed the connection on server/discover";
                    let refused = HandshakeError::new(Stage::Handshake, words);
                    Probe::failed(HandshakeError { retry_legacy: true, ..refused })
                }
                Ok(Err(failure)) => Probe::failed(failure),
            }
        }
        ServerTransport::Http(transport) => {
            let mut head = transport.head(0, None);
            head.add(modern::VERSION_HEADER, revision.as_str().as_bytes());
            head.add(modern::METHOD_HEADER, Method::Discover.as_str().as_bytes());
            let post = Post { id: Some(id), ..Post::note(head.with_body(b"", text)) };
            match post_in_time(transport, post).await {
                // Not a valid response: a server of another era may send anything.
                Err(failure) if failure.kind == UpstreamErrorKind::Garbage => {
                    Probe::Foreign(failure)
                }
                Err(failure) => Probe::failed(failure),
                Ok(posted) => {
                    transport.note_refusal(&posted);
                    judge_http(&posted)
                }
            }
        }
    }
}

/// Sends a handshake request over HTTP. Opening the connection has its own timeout, whose error
/// names the step.
async fn post_in_time(transport: &Arc<HttpTransport>, post: Post<'_>) -> Result<Posted> {
    let mut posted = pin!(transport.post(post));
    loop {
        match tokio::time::timeout(HTTP_TIMEOUT, &mut posted).await {
            Ok(posted) => return posted,
            Err(_) if transport.is_connecting() => {}
            Err(_) => {
                let words = "the server did not answer within 5 s";
                return Err(UpstreamError::timeout(words));
            }
        }
    }
}

/// Interprets a response to `server/discover` (protocol: versioning). Any error that is not
/// specific to the modern era means legacy.
fn judge_duplex(response: &Response) -> Probe {
    if response.text.len() > MAX_ANSWER {
        return Probe::incompatible(
            "the server's response to server/discover is longer than 1 MiB",
        );
    }
    match &response.outcome {
        Outcome::Result(span, _) => judge_discovery(span.of(&response.text)),
        Outcome::Error(error) => judge_error(error.code, error.data(&response.text)),
    }
}

fn judge_http(posted: &Posted) -> Probe {
    match (&posted.response, posted.status.as_u16()) {
        (_, 401 | 403 | 407 | 408 | 429) | (None, 500..=u16::MAX) => {
            Probe::failed(status_failure(posted, false))
        }
        (Some(response), _) => judge_duplex(response),
        (None, 300..=399) => Probe::incompatible("the server redirects; configure the target URL"),
        (None, _) => Probe::Foreign(status_failure(posted, false)),
    }
}

fn judge_discovery(result: &[u8]) -> Probe {
    let Some((versions, server)) = modern::read_discovery(result) else { return Probe::Legacy };
    judge_versions(&versions, |revision| Probe::Modern(Box::new(Peer { revision, server })))
}

fn judge_versions(versions: &[String], modern: impl FnOnce(Revision) -> Probe) -> Probe {
    match modern::common(versions) {
        Common::Modern(revision) => modern(revision),
        Common::Legacy => Probe::Legacy,
        Common::None => Probe::incompatible(format!(
            "the server supports none of the gateway's revisions, only {}",
            shown(versions)
        )),
    }
}

fn judge_error(error: i64, data: Option<&[u8]>) -> Probe {
    match error {
        code::UNSUPPORTED_VERSION => judge_versions(&modern::supported(data), |_| {
            Probe::Again("the server reports contradictory revisions".into())
        }),
        code::HEADER_MISMATCH | code::MISSING_CAPABILITY => Probe::incompatible(format!(
            "the server refused server/discover with {error}, an error of modern servers only"
        )),
        _ => Probe::Legacy,
    }
}

fn shown(versions: &[String]) -> String {
    let shown = versions.iter().take(5).map(|version| {
        let visible = version.chars().filter(|c| !c.is_control());
        visible.take(20).collect::<String>()
    });
    shown.collect::<Vec<_>>().join(", ")
}

async fn initialize(
    transport: &ServerTransport,
    intro: &Introduction,
) -> Result<Peer, HandshakeError> {
    let info = json::from_slice(&intro.info).unwrap_or(Value::Null);
    let params = legacy::initialize_params(Revision::NEWEST_LEGACY, &intro.capabilities, &info);
    let mut text = b"{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"initialize\",\"params\":".to_vec();
    text.extend_from_slice(params.to_string().as_bytes());
    text.push(b'}');
    let text = Bytes::from(text);
    let (response, session) = match transport {
        ServerTransport::Duplex(duplex) => {
            (duplex.request(3, text, Role::Call(None), None, false).await?, None)
        }
        ServerTransport::Http(transport) => {
            let message = transport.message(text, None);
            let post = Post { id: Some(3), keeps_headers: true, ..Post::note(message) };
            let posted = post_in_time(transport, post).await?;
            transport.note_refusal(&posted);
            let session = posted.header(&HeaderName::from_static(modern::SESSION_HEADER)).cloned();
            match posted.response {
                Some(response) if !matches!(posted.status.as_u16(), 401 | 403) => {
                    (response, session)
                }
                _ => return Err(refused_status(&posted)),
            }
        }
    };
    if response.text.len() > MAX_ANSWER {
        return Err(HandshakeError::new(
            Stage::Handshake,
            "initialize: the response is longer than 1 MiB",
        ));
    }
    let welcome = match &response.outcome {
        Outcome::Result(span, _) => legacy::read_welcome(span.of(&response.text)),
        Outcome::Error(error) => {
            let failure = UpstreamError::refused(Method::Initialize, *error, &response.text);
            let mut refused = HandshakeError::new(Stage::Handshake, failure.words);
            refused.modern = error.code == code::UNSUPPORTED_VERSION;
            return Err(refused);
        }
    };
    let (revision, server) = welcome
        .map_err(|error| HandshakeError::new(Stage::Handshake, format!("initialize: {error}")))?;
    if let ServerTransport::Http(transport) = transport {
        transport.carry(session_headers(session, revision));
    }
    confirm(transport).await;
    Ok(Peer { revision, server })
}

/// Sends `notifications/initialized`, before anything else.
async fn confirm(transport: &ServerTransport) {
    let text = Bytes::from(write::notification(Method::Initialized.as_str(), b"{}"));
    match transport {
        ServerTransport::Duplex(duplex) => drop(duplex.notify(text, None)),
        ServerTransport::Http(transport) => transport.deliver(transport.message(text, None)).await,
    }
}

fn refused_status(posted: &Posted) -> HandshakeError {
    let mut refused = HandshakeError::from(status_failure(posted, false));
    refused.maybe_sse = matches!(posted.status.as_u16(), 400..500)
        && !matches!(posted.status.as_u16(), 401 | 403 | 407 | 408 | 429);
    refused
}

/// Returns the session id and version headers of all later requests of a legacy session.
fn session_headers(session: Option<HeaderValue>, revision: Revision) -> HeaderMap {
    let mut headers = HeaderMap::new();
    if let Some(id) = session
        && id.as_bytes().iter().all(|b| (0x21..=0x7e).contains(b))
    {
        headers.insert(HeaderName::from_static(modern::SESSION_HEADER), id);
    }
    if revision >= Revision::V2025_06_18 {
        headers.insert(
            HeaderName::from_static(modern::VERSION_HEADER),
            HeaderValue::from_static(revision.as_str()),
        );
    }
    headers
}
