//! One HTTP exchange, in order: Host and Origin, path, method, headers, the body, the proxy, the response.
//! Everything is one concrete future: no box, no task, no lock and no copy of headers per request.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use http::header::{
    ACCEPT, ALLOW, AUTHORIZATION, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, HeaderName, HeaderValue,
};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use lockgate_admission::budget::{Budget, Hold};
use lockgate_authn::{Certificate, Credentials, Peer, WELL_KNOWN};
use lockgate_protocol::write;
use lockgate_proxy::face::{Endpoint, Inbound, Reply, Text, Verb};
use lockgate_telemetry::request::Tag;
use tower::ServiceExt;

use crate::Receive;
use crate::config::Config;
use crate::gate::{self, Gate};
use crate::http::Other;
use crate::intake::{self, Bounds};
use crate::outflow::{Outflow, assemble, plain, respond};
use crate::refusal::Refusal;
use crate::sse::Sessions;
use crate::watch::{Active, Pulse};

static REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const MCP_METHODS: &str = "POST, GET, DELETE, OPTIONS";
const METADATA_METHODS: &str = "GET, OPTIONS";

/// Who sent a request to another path than the MCP ones; found in the request's extensions.
#[derive(Clone, Debug)]
pub struct Remote {
    pub address: SocketAddr,
    pub certificate: Option<Arc<Certificate>>,
}

impl Remote {
    /// Lets a request pass whose sender may call the gateway: read and judged like one to `/mcp`.
    ///
    /// # Errors
    /// The answer to somebody who is not let in.
    pub async fn admit<R: Receive>(&self, receive: &R, headers: &mut HeaderMap) -> Result<(), Response<Bytes>> {
        let bearer = bearer(headers).map_err(|refusal| {
            refusal.record(receive);
            refusal.response()
        })?;
        let peer = Peer::Address(self.address.ip());
        let credentials = Credentials { peer, bearer, certificate: self.certificate.clone() };
        receive.identify(&Endpoint::All, &credentials).await.map(|_| ()).map_err(plain)
    }
}

/// What all connections of a listener share.
pub(crate) struct Shared {
    pub config: Config,
    pub gate: Gate,
    pub sessions: Arc<Sessions>,
}

/// What all requests of a connection share.
pub(crate) struct Link<R, O> {
    pub shared: Arc<Shared>,
    pub receive: Arc<R>,
    pub other: O,
    pub pulse: Arc<Pulse>,
    pub remote: SocketAddr,
    pub local: IpAddr,
    /// The client certificate that TLS has verified.
    pub certificate: Option<Arc<Certificate>>,
    /// The `Host` that passed first: nearly always the only one of a connection.
    pub host: OnceLock<HeaderValue>,
}

/// What a path leads to.
#[derive(Debug, PartialEq, Eq)]
enum Path {
    Mcp(Endpoint),
    Sse(Endpoint),
    Messages,
    /// Protected resource metadata, if there is any.
    Metadata,
    Other,
}

pub(crate) type Reaction<O> = Response<Outflow<<O as Other>::Body>>;

impl Shared {
    pub(crate) fn new(config: Config) -> Self {
        Self { gate: Gate::new(&config), sessions: Arc::new(Sessions::new(config.limits.connections)), config }
    }

    /// Reads a body within the configured bounds.
    pub(crate) async fn read<P>(&self, body: Incoming, budget: P) -> Result<(Bytes, Hold<P>), Refusal>
    where
        P: AsRef<Budget>,
    {
        let bounds = Bounds { bytes: self.config.limits.body_bytes, time: self.config.limits.read_timeout };
        intake::read(body, bounds, budget).await
    }
}

/// Answers one request. A client that names its request gets the name back.
pub(crate) async fn answer<R: Receive, O: Other>(
    link: Arc<Link<R, O>>,
    request: Request<Incoming>,
) -> Result<Reaction<O>, Infallible> {
    let given = request.headers().get(&REQUEST_ID).cloned();
    let tag = Tag::new(given.as_ref().map(HeaderValue::as_bytes));
    let given = given.filter(|_| tag.given().is_some());
    let mut reaction = lockgate_telemetry::request::within(tag, react(link, request)).await;
    if let (Ok(reaction), Some(id)) = (&mut reaction, given) {
        reaction.headers_mut().insert(REQUEST_ID.clone(), id);
    }
    reaction
}

async fn react<R: Receive, O: Other>(
    link: Arc<Link<R, O>>,
    request: Request<Incoming>,
) -> Result<Reaction<O>, Infallible> {
    let active = link.pulse.begin();
    let origin = match link.shared.gate.admit(request.uri(), request.headers(), link.local, &link.host) {
        Ok(origin) => origin,
        Err(refusal) => return Ok(refuse(&*link.receive, refusal)),
    };
    let reacted = match path(request.uri().path(), link.shared.config.sse) {
        Path::Mcp(endpoint) => mcp(&link, endpoint, request, active).await,
        Path::Sse(endpoint) => crate::sse::open(&link, endpoint, request, active).await,
        Path::Messages => crate::sse::message(&link, request).await,
        Path::Metadata => match link.receive.metadata(request.uri().path()) {
            Some(document) => metadata(request.method(), request.headers(), document),
            None => return Ok(other(&link, request).await),
        },
        Path::Other => return Ok(other(&link, request).await),
    };
    let mut response = reacted.unwrap_or_else(|refusal| refuse(&*link.receive, refusal));
    if let Some(origin) = origin {
        gate::expose(response.headers_mut(), origin);
    }
    Ok(response)
}

fn refuse<B>(receive: &impl Receive, refusal: Refusal) -> Response<Outflow<B>> {
    refusal.record(receive);
    refusal.response().map(Outflow::whole)
}

fn path(path: &str, sse: bool) -> Path {
    match path {
        "/mcp" => return Path::Mcp(Endpoint::All),
        "/sse" if sse => return Path::Sse(Endpoint::All),
        "/messages" if sse => return Path::Messages,
        _ => {}
    }
    if path.starts_with(WELL_KNOWN) {
        return Path::Metadata;
    }
    let one = path.strip_prefix("/servers/").and_then(|rest| rest.split_once('/')).filter(|(slug, _)| is_slug(slug));
    match one {
        Some((slug, "mcp")) => Path::Mcp(Endpoint::Server(slug.to_owned())),
        Some((slug, "sse")) if sse => Path::Sse(Endpoint::Server(slug.to_owned())),
        _ => Path::Other,
    }
}

/// Characters that need no escape in a URL; the proxy knows which slugs exist.
fn is_slug(slug: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b'~');
    (1..=128).contains(&slug.len()) && slug.bytes().all(plain)
}

async fn other<R: Receive, O: Other>(link: &Link<R, O>, mut request: Request<Incoming>) -> Reaction<O> {
    request.extensions_mut().insert(Remote { address: link.remote, certificate: link.certificate.clone() });
    match link.other.clone().oneshot(request).await {
        Ok(response) => response.map(|body| Outflow::Other { body }),
        Err(never) => match never {},
    }
}

async fn mcp<R: Receive, O: Other>(
    link: &Link<R, O>,
    endpoint: Endpoint,
    request: Request<Incoming>,
    active: Active,
) -> Result<Reaction<O>, Refusal> {
    let keep_alive = link.shared.config.keep_alive;
    if request.method() == Method::POST {
        let (mut headers, body) = open(request);
        check_post(&headers)?;
        let credentials = link.credentials(&mut headers)?;
        let principal = match link.receive.identify(&endpoint, &credentials).await {
            Ok(principal) => principal,
            Err(reply) => return Ok(respond(reply, keep_alive, Hold::none(active))),
        };
        let (body, mut held) = link.shared.read(body, active).await?;
        let inbound = Inbound { endpoint, peer: credentials.peer, principal, verb: Verb::Post(body), headers };
        let reply = link.receive.receive(inbound).await;
        let reply = fit(&*link.receive, reply, &mut held);
        return Ok(respond(reply, keep_alive, held));
    }
    let verb = match *request.method() {
        Method::GET => Verb::Get,
        Method::DELETE => Verb::Delete,
        Method::OPTIONS => return Ok(preflight(request.headers(), MCP_METHODS)),
        _ => return Err(Refusal::Method { allow: MCP_METHODS }),
    };
    let (mut headers, _) = open(request);
    if matches!(verb, Verb::Get) && !accepts(&headers, &["text/event-stream", "text/*"]) {
        return Err(Refusal::Accept);
    }
    let credentials = link.credentials(&mut headers)?;
    let principal = match link.receive.identify(&endpoint, &credentials).await {
        Ok(principal) => principal,
        Err(reply) => return Ok(respond(reply, keep_alive, Hold::none(active))),
    };
    let reply = link.receive.receive(Inbound { endpoint, peer: credentials.peer, principal, verb, headers }).await;
    Ok(respond(reply, keep_alive, Hold::none(active)))
}

/// Counts an answer for as long as it is on its way. One that there is no memory for is replaced by words that say so.
fn fit(receive: &impl Receive, reply: Reply, held: &mut Hold<Active>) -> Reply {
    let Reply::Message { body, .. } = &reply else {
        held.shrink(usize::MAX);
        return reply;
    };
    if held.set(body.own_len()).is_ok() {
        return reply;
    }
    let refusal = Refusal::Unread;
    receive.turned_away(refusal.why(), refusal.wire().2);
    let body = refusal.text(write::id_of_response(body.start()));
    held.shrink(usize::MAX);
    Reply::Message { status: refusal.wire().0, headers: HeaderMap::new(), body: Text::Whole(body) }
}

fn open(request: Request<Incoming>) -> (HeaderMap, Incoming) {
    let (parts, body) = request.into_parts();
    (parts.headers, body)
}

/// What the headers of a message have to say.
pub(crate) fn check_post(headers: &HeaderMap) -> Result<(), Refusal> {
    // The two counts differ only when some header stands several times, which is rare.
    if headers.len() != headers.keys_len() && headers.get_all(CONTENT_TYPE).iter().nth(1).is_some() {
        return Err(Refusal::ContentTypes);
    }
    if !headers.get(CONTENT_TYPE).is_some_and(|value| is_json(value.as_bytes())) {
        return Err(Refusal::ContentType);
    }
    let plain = |value: &HeaderValue| value.as_bytes().trim_ascii().eq_ignore_ascii_case(b"identity");
    if !headers.get_all(CONTENT_ENCODING).iter().all(plain) {
        return Err(Refusal::Encoding);
    }
    if !accepts(headers, &["application/json", "text/event-stream", "application/*", "text/*"]) {
        return Err(Refusal::Accept);
    }
    Ok(())
}

/// `application/json`, in no other characters than UTF-8.
fn is_json(value: &[u8]) -> bool {
    let mut parts = value.split(|&b| b == b';').map(<[u8]>::trim_ascii);
    let essence = parts.next().unwrap_or_default();
    let utf8 = |part: &[u8]| match part.split_at_checked(b"charset=".len()) {
        Some((name, set)) if name.eq_ignore_ascii_case(b"charset=") => {
            let set = set.strip_prefix(b"\"").and_then(|set| set.strip_suffix(b"\"")).unwrap_or(set);
            set.eq_ignore_ascii_case(b"utf-8") || set.eq_ignore_ascii_case(b"utf8")
        }
        _ => true,
    };
    essence.eq_ignore_ascii_case(b"application/json") && parts.all(utf8)
}

/// Whether `Accept` is absent or allows one of `types`; `*/*` always counts, a weight of zero never.
fn accepts(headers: &HeaderMap, types: &[&str]) -> bool {
    let values = headers.get_all(ACCEPT);
    // Absent, or what nearly every client sends.
    if values.iter().next().is_none_or(|value| value == "application/json, text/event-stream") {
        return true;
    }
    values.iter().filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(',')).any(|range| {
        let mut parts = range.split(';').map(str::trim);
        let essence = parts.next().unwrap_or_default();
        let known = essence == "*/*" || types.iter().any(|name| name.eq_ignore_ascii_case(essence));
        let refused = |part: &str| {
            let weight = part.strip_prefix("q=").or_else(|| part.strip_prefix("Q="));
            weight.is_some_and(|weight| weight.parse::<f32>().is_ok_and(|weight| weight <= 0.0))
        };
        known && !parts.any(refused)
    })
}

impl<R, O> Link<R, O> {
    /// Takes the credentials of a request on this connection.
    pub(crate) fn credentials(&self, headers: &mut HeaderMap) -> Result<Credentials, Refusal> {
        let bearer = bearer(headers)?;
        Ok(Credentials { peer: Peer::Address(self.remote.ip()), bearer, certificate: self.certificate.clone() })
    }
}

/// Takes the bearer token out of the headers, so that nothing behind can pass it on. Never looks at the query.
fn bearer(headers: &mut HeaderMap) -> Result<Option<String>, Refusal> {
    // The two counts differ only when some header stands several times, which is rare.
    if headers.len() != headers.keys_len() && headers.get_all(AUTHORIZATION).iter().nth(1).is_some() {
        return Err(Refusal::Authorization);
    }
    Ok(headers.remove(AUTHORIZATION).as_ref().and_then(token))
}

/// What stands behind the scheme `Bearer`. An empty text and one that is not UTF-8 are credentials too, which are not good.
fn token(value: &HeaderValue) -> Option<String> {
    let (scheme, token) = value.as_bytes().split_at_checked(b"bearer".len())?;
    // RFC 9110, 11.1: the scheme is a token, which may go on.
    let whole = !token.first().is_some_and(|&b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b));
    let text = |token| match std::str::from_utf8(token) {
        Ok(text) => text.to_owned(),
        Err(_) => String::from_utf8_lossy(token).into_owned(),
    };
    (whole && scheme.eq_ignore_ascii_case(b"bearer")).then(|| text(token.trim_ascii()))
}

/// Protected resource metadata: public, and the same for everybody.
fn metadata<B>(method: &Method, headers: &HeaderMap, document: String) -> Result<Response<Outflow<B>>, Refusal> {
    match *method {
        Method::GET => {}
        Method::OPTIONS => return Ok(preflight(headers, METADATA_METHODS)),
        _ => return Err(Refusal::Method { allow: METADATA_METHODS }),
    }
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("max-age=3600"));
    Ok(assemble(StatusCode::OK, headers, Outflow::whole(document.into())))
}

/// The answer to OPTIONS: what may be sent here, to a page and to anybody else.
pub(crate) fn preflight<B>(request: &HeaderMap, methods: &'static str) -> Response<Outflow<B>> {
    let mut headers = HeaderMap::new();
    headers.insert(ALLOW, HeaderValue::from_static(methods));
    if request.contains_key(http::header::ORIGIN) {
        gate::preflight(&mut headers, request, methods);
    }
    assemble(StatusCode::NO_CONTENT, headers, Outflow::empty())
}

#[cfg(test)]
mod tests;
