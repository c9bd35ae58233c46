//! HTTP+SSE (2024-11-05), for clients that never learned anything newer: a GET opens a stream, messages are POSTed beside
//! it and answered on it. Each stream is one legacy session of the proxy, and belongs to the principal that opened it.
//! A session id alone grants nothing, and a lost stream ends its session and its calls.

use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::BytesMut;
use futures_util::Stream;
use http::{HeaderMap, HeaderValue, Method, Request};
use hyper::body::Incoming;
use lockgate_admission::budget::Hold;
use lockgate_authn::Principal;
use lockgate_protocol::jsonrpc::{self, Message, SentBy};
use lockgate_protocol::sse;
use lockgate_proxy::transport::{Endpoint, ExchangeKind, Outgoing, Reply};
use parking_lot::Mutex;
use tokio::sync::mpsc;

use crate::Handler;
use crate::bridge::{self, Caller, Queue, SESSION, Waiting};
use crate::connection::ActiveRequest;
use crate::exchange::{Link, Reaction, preflight};
use crate::fallback::Fallback;
use crate::outflow::{EventStream, respond, stream};
use crate::refusal::Refusal;
use crate::request_headers::check_post;

/// Nesting that is looked into to tell requests from notifications; the proxy has its own bound.
const DEPTH: usize = 128;
const STREAM_METHODS: &str = "GET, OPTIONS";
const MESSAGE_METHODS: &str = "POST, OPTIONS";

/// The open streams of a listener.
pub(crate) struct Sessions {
    /// `None` once the listener shuts down.
    open: Mutex<Option<HashMap<String, Session>>>,
    max: usize,
}

/// One open stream. The stream ends when the last clone is dropped.
#[derive(Clone)]
struct Session {
    owner: Arc<Owner>,
    out: Queue,
}

/// Whose stream it is, and which session of the proxy it stands for.
struct Owner {
    caller: Caller,
    proxied: Mutex<Option<HeaderValue>>,
}

impl Sessions {
    pub(crate) fn new(max: usize) -> Self {
        Self { open: Mutex::new(Some(HashMap::new())), max }
    }

    /// Takes no further messages; streams end when what runs on them has ended.
    pub(crate) fn close(&self) {
        drop(self.open.lock().take());
    }

    fn add(&self, session: Session) -> Result<String, Refusal> {
        let mut random = [0; 16];
        getrandom::fill(&mut random).map_err(|_| Refusal::Busy)?;
        let id = format!("{:032x}", u128::from_le_bytes(random));
        let mut open = self.open.lock();
        let open = open.as_mut().filter(|open| open.len() < self.max).ok_or(Refusal::Streams)?;
        open.insert(id.clone(), session);
        Ok(id)
    }

    /// The session of this id and its endpoint. Whose it is, is not looked at.
    fn find(&self, id: &str) -> Result<Session, Refusal> {
        let open = self.open.lock();
        open.as_ref().and_then(|open| open.get(id)).cloned().ok_or(Refusal::NoSession)
    }

    fn remove(&self, id: &str) {
        if let Some(open) = self.open.lock().as_mut() {
            open.remove(id);
        }
    }
}

/// `GET /sse` and `GET /servers/{slug}/sse`: opens a stream and tells where its messages go.
pub(crate) async fn open<H: Handler, F: Fallback>(
    link: &Link<H, F>,
    endpoint: Endpoint,
    request: Request<Incoming>,
    active: ActiveRequest,
) -> Result<Reaction<F>, Refusal> {
    let (parts, _) = request.into_parts();
    match parts.method {
        Method::GET => {}
        Method::OPTIONS => return Ok(preflight(&parts.headers, STREAM_METHODS)),
        _ => return Err(Refusal::Method { allow: STREAM_METHODS }),
    }
    let mut headers = parts.headers;
    let keep_alive = link.shared.config.keep_alive;
    let credentials = link.credentials(&mut headers)?;
    let principal = match link.identify(&endpoint, &credentials).await {
        Ok(principal) => principal,
        Err(reply) => return Ok(respond(reply, keep_alive, Hold::none(active))),
    };
    let place = link.handler.stream(&principal).ok_or(Refusal::CallersStreams)?;
    let caller = Caller { peer: credentials.peer, principal, endpoint };
    let (out, messages) = Queue::new(link.handler.budget());
    let owner = Arc::new(Owner { caller, proxied: Mutex::default() });
    let id = link.shared.sessions.add(Session { owner: Arc::clone(&owner), out })?;
    let mut first = BytesMut::new();
    sse::endpoint(&mut first, &format!("/messages?session={id}"));
    let sessions = Arc::clone(&link.shared.sessions);
    let events = Messages { messages, id, owner, sessions, handler: Arc::clone(&link.handler), _place: place };
    Ok(stream(HeaderMap::new(), EventStream::new(first.freeze(), Box::pin(events), keep_alive, active)))
}

/// `POST /messages?session=…`: requests are answered on the stream, everything else at once.
pub(crate) async fn message<H: Handler, F: Fallback>(
    link: &Link<H, F>,
    request: Request<Incoming>,
) -> Result<Reaction<F>, Refusal> {
    let (parts, body) = request.into_parts();
    match parts.method {
        Method::POST => {}
        Method::OPTIONS => return Ok(preflight(&parts.headers, MESSAGE_METHODS)),
        _ => return Err(Refusal::Method { allow: MESSAGE_METHODS }),
    }
    let mut headers = parts.headers;
    check_post(&headers)?;
    let keep_alive = link.shared.config.keep_alive;
    let credentials = link.credentials(&mut headers)?;
    let found = link.shared.sessions.find(session_id(parts.uri.query()));
    let endpoint = found.as_ref().map_or(&Endpoint::All, |session| &session.owner.caller.endpoint);
    let principal = match link.identify(endpoint, &credentials).await {
        Ok(principal) => principal,
        Err(reply) => return Ok(respond(reply, keep_alive, Hold::none(link.state.begin_request()))),
    };
    // Unknown and foreign look alike.
    let session = found?.of(&principal)?;
    let (body, held) = link.read_body(body, &principal, Arc::clone(link.handler.budget())).await?;

    headers.remove(SESSION);
    if let Some(proxied) = session.owner.proxied.lock().clone() {
        headers.insert(SESSION, proxied);
    }
    let mut caller = session.owner.caller.clone();
    // The same caller, with what this request's own credential grants.
    caller.principal = principal;
    let exchange = caller.with_headers(ExchangeKind::Post(body.clone()), headers);
    let handler = Arc::clone(&link.handler);
    if !matches!(jsonrpc::parse(body, DEPTH, SentBy::Client), Ok(Message::Request(_))) {
        return Ok(respond(handler.handle(exchange).await, keep_alive, Hold::none(link.state.begin_request())));
    }
    let gone = session.out.clone();
    let work = async move {
        let reply = handler.handle(exchange).await;
        drop(held);
        session.adopt(&reply, &handler);
        bridge::pour(reply, &session.out).await;
    };
    let mut work = Box::pin(async move {
        tokio::select! {
            () = gone.closed() => {}
            () = work => {}
        }
    });
    // Begun here, so that what is sent next cannot overtake it.
    if poll_fn(|cx| Poll::Ready(work.as_mut().poll(cx))).await.is_pending() {
        tokio::spawn(work);
    }
    let accepted = Reply::Empty { status: http::StatusCode::ACCEPTED, headers: HeaderMap::new() };
    Ok(respond(accepted, keep_alive, Hold::none(link.state.begin_request())))
}

fn session_id(query: Option<&str>) -> &str {
    let mut pairs = query.unwrap_or_default().split('&');
    pairs.find_map(|pair| pair.strip_prefix("session=")).unwrap_or_default()
}

impl Session {
    /// The session, if it is this principal's.
    fn of(self, principal: &Principal) -> Result<Self, Refusal> {
        if self.owner.caller.principal == *principal { Ok(self) } else { Err(Refusal::NoSession) }
    }

    /// Remembers the session that `initialize` brought, and forwards what it says outside calls.
    fn adopt<H: Handler>(&self, reply: &Reply, handler: &Arc<H>) {
        let Some(proxied) = bridge::session(reply) else { return };
        if self.owner.proxied.lock().replace(proxied.clone()).is_some_and(|before| before == proxied) {
            return;
        }
        let (session, handler) = (self.clone(), Arc::clone(handler));
        tokio::spawn(async move {
            let forward = async {
                if let Some(events) = session.owner.caller.listen(&*handler, ExchangeKind::Listen, &proxied).await {
                    bridge::drain(events, &session.out).await;
                }
            };
            tokio::select! {
                () = session.out.closed() => {}
                () = forward => {}
            }
        });
    }
}

/// The messages of a stream. Dropping it ends the session.
struct Messages<H: Handler> {
    messages: mpsc::Receiver<Waiting>,
    id: String,
    owner: Arc<Owner>,
    sessions: Arc<Sessions>,
    handler: Arc<H>,
    /// Among the streams of its caller.
    _place: H::Place,
}

impl<H: Handler> Stream for Messages<H> {
    type Item = Outgoing;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Outgoing>> {
        let outgoing = |waiting: Waiting| Outgoing { data: waiting.text, ..Outgoing::default() };
        self.messages.poll_recv(cx).map(|waiting| waiting.map(outgoing))
    }
}

impl<H: Handler> Drop for Messages<H> {
    fn drop(&mut self) {
        self.sessions.remove(&self.id);
        let Some(proxied) = self.owner.proxied.lock().take() else { return };
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let (owner, handler) = (Arc::clone(&self.owner), Arc::clone(&self.handler));
            runtime.spawn(async move { owner.caller.end(&*handler, &proxied).await });
        }
    }
}

#[cfg(test)]
mod tests;
