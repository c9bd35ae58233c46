//! Several gateways that share a secret. An answer for a call held by another gateway is forwarded
//! to it with the client's credentials, and its response is returned to the client. A message is
//! forwarded once at most, and only to an address that was sealed by a gateway and currently
//! belongs to a gateway.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue};
use http::{HeaderMap, Method, StatusCode};
use lockgate_authn::{Credentials, Principal};
use lockgate_protocol::jsonrpc::Message;
use lockgate_protocol::key::Key;
use lockgate_protocol::sealed::{Purpose, Sealer};
use lockgate_protocol::{code, scan};
use lockgate_text::date;
use lockgate_upstream::BoxFuture;
use serde_json::json;

use crate::rescue::RequestError;
use crate::transport::{Endpoint, Exchange, Reply, ReplyBody, SESSION, StreamedBody, header};

/// The header that authenticates a gateway to another.
static PEER: HeaderName = HeaderName::from_static("lockgate-peer");
/// Validity of a proof in seconds. Clocks of gateways may differ by less than this.
const PROOF_LIFE: u64 = 30;
/// Validity of a sealed address in seconds. The call or session that it is bound to ends earlier.
const HOLDER_LIFE: u64 = 365 * 24 * 3600;
/// Separates a token from its holder's sealed address. Tokens never contain this character.
const SEPARATOR: char = '~';
/// Maximum size in bytes of the response to a message that is not a request.
const MAX_NOTE: usize = 64 * 1024;
/// Client headers that are forwarded besides `Mcp-*`.
const SENT_ON: [HeaderName; 5] = [
    ACCEPT,
    CONTENT_TYPE,
    HeaderName::from_static("traceparent"),
    HeaderName::from_static("tracestate"),
    HeaderName::from_static("x-request-id"),
];

/// Discovery of, and transport to, the other gateways.
pub trait Peers: Send + Sync + 'static {
    /// Returns the address of this gateway.
    fn address(&self) -> SocketAddr;

    /// Looks up the addresses of all gateways.
    fn all(&self) -> BoxFuture<'_, Vec<SocketAddr>>;

    /// Sends a message to `to`, if `to` is currently the address of a gateway.
    fn send(
        &self,
        to: SocketAddr,
        message: PeerMessage,
    ) -> BoxFuture<'_, Result<PeerAnswer, PeerError>>;
}

/// A client's message on its way to another gateway.
#[derive(Clone)]
pub struct PeerMessage {
    pub method: Method,
    pub path: String,
    pub headers: HeaderMap,
    pub body: Bytes,
    /// Timeout for the start of the response; `None` when a call answers.
    pub limit: Option<Duration>,
}

/// The response of another gateway.
pub struct PeerAnswer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: StreamedBody,
}

/// The failure to get a response from another gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerError {
    /// The gateway does not exist or could not be reached: nothing was sent.
    Gone,
    /// The gateway may have received the message.
    Lost,
}

lockgate_text::words! {
    /// The kind of work that waits at a gateway.
    pub(crate) enum Waiting {
        Call = "call",
        Approval = "approval",
    }
}

/// Seals the address of the gateway that holds a call or approval. `bound` consists of the caller,
/// the endpoint, and the token that the address belongs to.
fn seal_holder(
    sealer: &Sealer,
    bound: &[&[u8]; 4],
    waiting: Waiting,
    address: SocketAddr,
) -> Option<String> {
    let plain = format!("{} {address}", waiting.as_str());
    let expires = date::now() + HOLDER_LIFE;
    sealer.seal(Purpose::Holder, bound, expires, plain.as_bytes()).ok()
}

fn open_holder(sealer: &Sealer, bound: &[&[u8]; 4], token: &str) -> Option<(Waiting, SocketAddr)> {
    let plain = sealer.open(Purpose::Holder, bound, date::now(), token).ok()?;
    let plain = String::from_utf8(plain).ok()?;
    let (kind, address) = plain.split_once(' ')?;
    Some((Waiting::parse(kind)?, address.parse().ok()?))
}

/// Appends the sealed address of the holding gateway to a request state.
pub(crate) fn add_holder(
    sealer: &Sealer,
    [realm, subject, endpoint]: [&[u8]; 3],
    state: String,
    waiting: Waiting,
    address: SocketAddr,
) -> String {
    let bound = [realm, subject, endpoint, state.as_bytes()];
    match seal_holder(sealer, &bound, waiting, address) {
        Some(holder) => format!("{state}{SEPARATOR}{holder}"),
        None => state,
    }
}

/// Returns a request state without the sealed address.
pub(crate) fn without_holder(state: &str) -> &str {
    state.split_once(SEPARATOR).map_or(state, |(state, _)| state)
}

/// Seals this gateway's address into a suffix for the question ids of a session, so that the
/// answers reach this gateway.
pub fn name_session_holder(
    sealer: &Sealer,
    principal: &Principal,
    endpoint: &Endpoint,
    session: &str,
    address: SocketAddr,
) -> Option<Box<str>> {
    let bound = bind(principal, endpoint, session);
    let holder = seal_holder(sealer, &bound, Waiting::Call, address)?;
    Some(format!("{SEPARATOR}{holder}").into())
}

fn bind<'a>(principal: &'a Principal, endpoint: &'a Endpoint, token: &'a str) -> [&'a [u8]; 4] {
    let [realm, subject] = [principal.realm(), &principal.subject].map(str::as_bytes);
    [realm, subject, endpoint.bound(), token.as_bytes()]
}

/// The gateway that holds the call of a message.
pub(crate) struct Holder {
    waiting: Waiting,
    pub(crate) address: SocketAddr,
}

impl Holder {
    /// Finds the gateway that holds a message's call. Returns `None` unless the message names a
    /// holder that was sealed for this caller.
    pub(crate) fn of(sealer: &Sealer, exchange: &Exchange, message: &Message) -> Option<Self> {
        let (token, holder) = match message {
            Message::Request(request) => {
                let state = scan::as_str(request.param(Key::RequestState)?)?;
                let (token, holder) = state.split_once(SEPARATOR)?;
                (token.to_owned(), holder.to_owned())
            }
            Message::Response(response) => {
                let id = scan::as_str(response.id()?)?;
                let (_, holder) = id.split_once(SEPARATOR)?;
                (header(&exchange.headers, &SESSION)?.to_owned(), holder.to_owned())
            }
            Message::Notification(_) => return None,
        };
        let bound = bind(&exchange.principal, &exchange.endpoint, &token);
        let (waiting, address) = open_holder(sealer, &bound, &holder)?;
        Some(Self { waiting, address })
    }

    /// Returns the error for a client that cannot reach its call or approval.
    pub(crate) fn away(&self, error: PeerError) -> RequestError {
        let (words, may_have_run) = match (self.waiting, error) {
            (Waiting::Approval, PeerError::Gone) => (
                "the gateway that asked for this approval is gone; the call was not made. Retry \
                    the request without requestState",
                false,
            ),
            (Waiting::Approval, PeerError::Lost) => (
                "the gateway that asked for this approval stopped while processing the answer; \
                    the outcome is unknown, and the call may have been made",
                true,
            ),
            (Waiting::Call, PeerError::Gone) => (
                "the gateway that holds this call is gone and did not receive this answer. The \
                    call had started, so it may have taken effect: check before a retry without \
                    requestState",
                true,
            ),
            (Waiting::Call, PeerError::Lost) => (
                "the gateway that holds this call stopped after this answer was sent to it; the \
                    outcome is unknown, and the call may have been completed",
                true,
            ),
        };
        unreachable_peer(words).data(json!({"reason": "replica", "mayHaveRun": may_have_run}))
    }
}

fn unreachable_peer(words: &'static str) -> RequestError {
    RequestError::new(code::INTERNAL, words).status(StatusCode::SERVICE_UNAVAILABLE)
}

/// Returns the parts of a message that its proof is bound to.
fn bind_proof(to: SocketAddr, message: &PeerMessage) -> [Vec<u8>; 6] {
    [
        to.to_string().into_bytes(),
        message.method.as_str().as_bytes().to_vec(),
        message.path.as_bytes().to_vec(),
        value_of(&message.headers, &AUTHORIZATION),
        value_of(&message.headers, &SESSION),
        blake3::hash(&message.body).as_bytes().to_vec(),
    ]
}

fn value_of(headers: &HeaderMap, name: &HeaderName) -> Vec<u8> {
    headers.get(name).map(|value| value.as_bytes().to_vec()).unwrap_or_default()
}

/// Rewrites a client's message for another gateway. Returns `None` if its credentials cannot be
/// forwarded.
pub(crate) fn write_message(
    exchange: &Exchange,
    method: Method,
    body: Bytes,
    limit: Option<Duration>,
) -> Option<PeerMessage> {
    let credentials = exchange.credentials.as_ref()?;
    let mut headers = HeaderMap::new();
    for (name, value) in &exchange.headers {
        if name.as_str().starts_with("mcp-") || SENT_ON.contains(name) {
            headers.append(name.clone(), value.clone());
        }
    }
    if let Some(value) = write_credentials(credentials)? {
        headers.insert(AUTHORIZATION, value);
    }
    Some(PeerMessage { method, path: exchange.endpoint.path().into_owned(), headers, body, limit })
}

/// Returns the header for a client's credentials, or `None` if the client used a certificate, which
/// the gateway cannot present in its place.
fn write_credentials(credentials: &Credentials) -> Option<Option<HeaderValue>> {
    if credentials.certificate.is_some() {
        return None;
    }
    let Some(bearer) = &credentials.bearer else { return Some(None) };
    let mut value = HeaderValue::from_str(&format!("Bearer {bearer}")).ok()?;
    value.set_sensitive(true);
    Some(Some(value))
}

/// Adds the proof that the message comes from a gateway with this secret. Returns `None` if that
/// fails: an unproven message must not be sent, because the proof also prevents loops.
pub(crate) fn sign(
    sealer: &Sealer,
    to: SocketAddr,
    mut message: PeerMessage,
) -> Option<PeerMessage> {
    let bound = bind_proof(to, &message);
    let bound = bound.each_ref().map(Vec::as_slice);
    let expires = date::now() + PROOF_LIFE;
    let proof = sealer.seal(Purpose::Peer, &bound, expires, b"").ok()?;
    message.headers.insert(PEER.clone(), HeaderValue::from_str(&proof).ok()?);
    Some(message)
}

/// The origin of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sender {
    Client,
    Peer,
    /// A sender with an invalid proof.
    Forger,
}

/// Returns whether a message claims to be forwarded by another gateway.
pub(crate) fn is_sent_on(exchange: &Exchange) -> bool {
    exchange.headers.contains_key(&PEER)
}

/// Determines the sender of a message with this `method` and `body`.
pub fn find_sender(
    sealer: &Sealer,
    own: SocketAddr,
    exchange: &Exchange,
    method: Method,
    body: Bytes,
) -> Sender {
    let Some(proof) = exchange.headers.get(&PEER) else { return Sender::Client };
    let Some(message) = write_message(exchange, method, body, None) else { return Sender::Forger };
    let bound = bind_proof(own, &message);
    let bound = bound.each_ref().map(Vec::as_slice);
    let Ok(proof) = proof.to_str() else { return Sender::Forger };
    match sealer.open(Purpose::Peer, &bound, date::now(), proof) {
        Ok(_) => Sender::Peer,
        Err(_) => Sender::Forger,
    }
}

/// Returns the error for a message with a forged proof, or one that was already forwarded.
pub fn refuse(sender: Sender) -> RequestError {
    let words = match sender {
        Sender::Forger => "the header Lockgate-Peer was not signed with this gateway's secret",
        _ => "the message was already forwarded once, and its call is not here",
    };
    RequestError::new(code::INVALID_REQUEST, words).status(StatusCode::FORBIDDEN)
}

/// Returns the error for credentials that cannot be forwarded.
pub(crate) fn refuse_credentials() -> RequestError {
    unreachable_peer(
        "another gateway holds this call, and a client certificate cannot be forwarded to it: \
            send the answer to that gateway, or use a key or token",
    )
}

/// Converts another gateway's response into the reply to the client.
pub(crate) async fn relay(answer: PeerAnswer, is_request: bool) -> Reply {
    let PeerAnswer { status, mut headers, mut body } = answer;
    if is_request {
        return Reply::from(ReplyBody::Relayed(body)).with_status(status).with_headers(headers);
    }
    let mut text = BytesMut::new();
    while let Some(Ok(piece)) = body.next().await {
        if text.len() + piece.len() > MAX_NOTE {
            break;
        }
        text.extend_from_slice(&piece);
    }
    if text.is_empty() {
        return Reply::empty(status).with_headers(headers);
    }
    headers.remove(CONTENT_TYPE);
    Reply::message(text.freeze()).with_status(status).with_headers(headers)
}
