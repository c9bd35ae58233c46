//! One HTTP exchange, in order: Host and Origin, path, method, headers, the body, the proxy, the response.
//! Everything is one concrete future, in memory that exchanges share (`future_pool`): no task and no copy of headers per request.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use http::header::{ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_TYPE, HeaderName, HeaderValue};
use http::{HeaderMap, Method, Request, Response, StatusCode, Version};
use hyper::body::Incoming;
use lockgate_admission::budget::Hold;
use lockgate_authn::{Certificate, Credentials, Peer, Principal, WELL_KNOWN};
use lockgate_protocol::write;
use lockgate_proxy::transport::{Endpoint, Exchange, ExchangeKind, Reply, Text};
use lockgate_telemetry::request::Tag;
use tower::ServiceExt;

use crate::Handler;
use crate::config::Config;
use crate::connection::{ActiveRequest, ConnectionState};
use crate::fallback::Fallback;
use crate::gate::{self, Gate};
use crate::intake::{self, Account, Bounds};
use crate::outflow::{Outflow, assemble, plain, respond};
use crate::refusal::Refusal;
use crate::request_headers::{accepts, bearer, check_framing, check_post};
use crate::slots::Slots;
use crate::sse::Sessions;
use crate::unfinished::UnfinishedBodies;

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
    pub async fn admit<H: Handler>(&self, handler: &H, headers: &mut HeaderMap) -> Result<(), Response<Bytes>> {
        let bearer = bearer(headers).map_err(|refusal| {
            refusal.record(handler);
            refusal.response()
        })?;
        let peer = Peer::Address(self.address.ip());
        let credentials = Credentials { peer, bearer, certificate: self.certificate.clone() };
        handler.identify(&Endpoint::All, &credentials).await.map(|_| ()).map_err(plain)
    }
}

/// What all connections of a listener share.
pub(crate) struct Shared {
    pub config: Config,
    pub gate: Gate,
    pub sessions: Arc<Sessions>,
    pub unfinished: UnfinishedBodies,
    pub slots: Arc<Slots>,
    /// Clients are to go elsewhere with their next request.
    pub draining: AtomicBool,
}

/// What all requests of a connection share.
pub(crate) struct Link<H, F> {
    pub shared: Arc<Shared>,
    pub handler: Arc<H>,
    pub fallback: F,
    pub state: Arc<ConnectionState>,
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
    Fallback,
}

pub(crate) type Reaction<F> = Response<Outflow<<F as Fallback>::Body>>;

impl Shared {
    pub(crate) fn new(config: Config) -> Self {
        let limits = &config.limits;
        Self {
            gate: Gate::new(&config),
            sessions: Arc::new(Sessions::new(limits.connections)),
            unfinished: UnfinishedBodies::new(limits.unfinished.clone()),
            slots: Slots::new(limits.connections, limits.connections_per_address),
            draining: AtomicBool::new(false),
            config,
        }
    }
}

/// Answers one request. A client that names its request gets the name back.
pub(crate) async fn answer<H: Handler, F: Fallback>(
    link: Arc<Link<H, F>>,
    request: Request<Incoming>,
) -> Result<Reaction<F>, Infallible> {
    let given = request.headers().get(&REQUEST_ID).cloned();
    let tag = Tag::new(given.as_ref().map(HeaderValue::as_bytes));
    let given = given.filter(|_| tag.given().is_some());
    let version = request.version();
    link.state.set_version(version);
    let mut reaction = lockgate_telemetry::request::within(tag, react(&link, request)).await;
    if let (Ok(reaction), true) = (&mut reaction, link.shared.draining.load(Ordering::Relaxed)) {
        if version == Version::HTTP_2 {
            link.state.go_away();
        } else {
            reaction.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
    }
    if let (Ok(reaction), Some(id)) = (&mut reaction, given) {
        reaction.headers_mut().insert(REQUEST_ID.clone(), id);
    }
    link.state.mark_answering();
    reaction
}

async fn react<H: Handler, F: Fallback>(
    link: &Link<H, F>,
    request: Request<Incoming>,
) -> Result<Reaction<F>, Infallible> {
    let active = link.state.begin_request();
    if let Err(refusal) = check_framing(request.version(), request.headers(), &link.state) {
        return Ok(refuse(&*link.handler, refusal));
    }
    let origin = match link.shared.gate.admit(request.uri(), request.headers(), link.local, &link.host) {
        Ok(origin) => origin,
        Err(refusal) => return Ok(refuse(&*link.handler, refusal)),
    };
    let reacted = match path(request.uri().path(), link.shared.config.sse) {
        Path::Mcp(endpoint) => mcp(link, endpoint, request, active).await,
        Path::Sse(endpoint) => crate::sse::open(link, endpoint, request, active).await,
        Path::Messages => crate::sse::message(link, request).await,
        Path::Metadata => match link.handler.metadata(request.uri().path()) {
            Some(document) => metadata(request.method(), request.headers(), document),
            None => return Ok(call_fallback(link, request).await),
        },
        Path::Fallback => return Ok(call_fallback(link, request).await),
    };
    let mut response = reacted.unwrap_or_else(|refusal| refuse(&*link.handler, refusal));
    if let Some(origin) = origin {
        gate::expose(response.headers_mut(), origin);
    }
    Ok(response)
}

fn refuse<B>(handler: &impl Handler, refusal: Refusal) -> Response<Outflow<B>> {
    refusal.record(handler);
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
        _ => Path::Fallback,
    }
}

/// Characters that need no escape in a URL; the proxy knows which slugs exist.
fn is_slug(slug: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b'~');
    (1..=128).contains(&slug.len()) && slug.bytes().all(plain)
}

async fn call_fallback<H: Handler, F: Fallback>(link: &Link<H, F>, mut request: Request<Incoming>) -> Reaction<F> {
    request.extensions_mut().insert(Remote { address: link.remote, certificate: link.certificate.clone() });
    match link.fallback.clone().oneshot(request).await {
        Ok(response) => response.map(|body| Outflow::Fallback { body }),
        Err(never) => match never {},
    }
}

async fn mcp<H: Handler, F: Fallback>(
    link: &Link<H, F>,
    endpoint: Endpoint,
    request: Request<Incoming>,
    active: ActiveRequest,
) -> Result<Reaction<F>, Refusal> {
    let keep_alive = link.shared.config.keep_alive;
    if request.method() == Method::POST {
        let (mut headers, body) = open(request);
        check_post(&headers)?;
        let credentials = link.credentials(&mut headers)?;
        let principal = match link.identify(&endpoint, &credentials).await {
            Ok(principal) => principal,
            Err(reply) => return Ok(respond(reply, keep_alive, Hold::none(active))),
        };
        let (body, mut held) = link.read_body(body, &principal, active).await?;
        let exchange =
            Exchange { endpoint, peer: credentials.peer, principal, kind: ExchangeKind::Post(body), headers };
        let reply = link.handler.handle(exchange).await;
        let reply = fit(&*link.handler, reply, &mut held);
        return Ok(respond(reply, keep_alive, held));
    }
    let kind = match *request.method() {
        Method::GET => ExchangeKind::Get,
        Method::DELETE => ExchangeKind::Delete,
        Method::OPTIONS => return Ok(preflight(request.headers(), MCP_METHODS)),
        _ => return Err(Refusal::Method { allow: MCP_METHODS }),
    };
    let (mut headers, _) = open(request);
    if matches!(kind, ExchangeKind::Get) && !accepts(&headers, &["text/event-stream", "text/*"]) {
        return Err(Refusal::Accept);
    }
    let credentials = link.credentials(&mut headers)?;
    let principal = match link.identify(&endpoint, &credentials).await {
        Ok(principal) => principal,
        Err(reply) => return Ok(respond(reply, keep_alive, Hold::none(active))),
    };
    let reply = link.handler.handle(Exchange { endpoint, peer: credentials.peer, principal, kind, headers }).await;
    Ok(respond(reply, keep_alive, Hold::none(active)))
}

/// Counts an answer for as long as it is on its way. One that there is no memory for is replaced by words that say so.
fn fit(handler: &impl Handler, reply: Reply, held: &mut Hold<ActiveRequest>) -> Reply {
    let Reply::Message { body, .. } = &reply else {
        held.shrink(usize::MAX);
        return reply;
    };
    if held.set(body.own_len()).is_ok() {
        return reply;
    }
    let refusal = Refusal::Unread;
    handler.record_rejection(refusal.why(), refusal.wire().2);
    let body = refusal.text(write::id_of_response(body.start()));
    held.shrink(usize::MAX);
    Reply::Message { status: refusal.wire().0, headers: HeaderMap::new(), body: Text::Whole(body) }
}

fn open(request: Request<Incoming>) -> (HeaderMap, Incoming) {
    let (parts, body) = request.into_parts();
    (parts.headers, body)
}

impl<H: Handler, F> Link<H, F> {
    /// Who is behind an exchange on this connection.
    pub(crate) async fn identify(&self, endpoint: &Endpoint, credentials: &Credentials) -> Result<Principal, Reply> {
        let principal = self.handler.identify(endpoint, credentials).await?;
        self.state.mark_authenticated();
        Ok(principal)
    }

    /// Takes the credentials of a request on this connection.
    pub(crate) fn credentials(&self, headers: &mut HeaderMap) -> Result<Credentials, Refusal> {
        let bearer = bearer(headers)?;
        Ok(Credentials { peer: Peer::Address(self.remote.ip()), bearer, certificate: self.certificate.clone() })
    }

    /// Reads a body of this principal within the configured bounds.
    pub(crate) async fn read_body<P>(
        &self,
        body: Incoming,
        principal: &Principal,
        budget: P,
    ) -> Result<(Bytes, Hold<P>), Refusal>
    where
        P: Account,
    {
        let limits = &self.shared.config.limits;
        let bounds = Bounds {
            bytes: limits.body_bytes,
            time: limits.read_timeout,
            unfinished: &self.shared.unfinished,
            connection: &self.state.unfinished,
            principal: principal.key(),
        };
        intake::read(body, bounds, budget).await
    }
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
