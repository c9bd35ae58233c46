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
use crate::connection::ActiveRequest;
use crate::error::ListenerError;
use crate::exchange::{ConnectionContext, ListenerResponse, answer_preflight};
use crate::fallback::Fallback;
use crate::request_headers::check_post;
use crate::response_body::{EventStream, build_response, stream};
use crate::session_client::{self, MessageQueue, QueuedMessage, SESSION, SessionClient};

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
    out: MessageQueue,
}

/// Whose stream it is, and which session of the proxy it stands for.
struct Owner {
    caller: SessionClient,
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

    fn add(&self, session: Session) -> Result<String, ListenerError> {
        let mut random = [0; 16];
        getrandom::fill(&mut random).map_err(|_| ListenerError::Busy)?;
        let id = format!("{:032x}", u128::from_le_bytes(random));
        let mut open = self.open.lock();
        let open = open.as_mut().filter(|open| open.len() < self.max).ok_or(ListenerError::Streams)?;
        open.insert(id.clone(), session);
        Ok(id)
    }

    /// The session of this id and its endpoint. Whose it is, is not looked at.
    fn find(&self, id: &str) -> Result<Session, ListenerError> {
        let open = self.open.lock();
        open.as_ref().and_then(|open| open.get(id)).cloned().ok_or(ListenerError::NoSession)
    }

    fn remove(&self, id: &str) {
        if let Some(open) = self.open.lock().as_mut() {
            open.remove(id);
        }
    }
}

/// `GET /sse` and `GET /servers/{slug}/sse`: opens a stream and tells where its messages go.
pub(crate) async fn open_stream<H: Handler, F: Fallback>(
    context: &ConnectionContext<H, F>,
    endpoint: Endpoint,
    request: Request<Incoming>,
    active: ActiveRequest,
) -> Result<ListenerResponse<F>, ListenerError> {
    let (parts, _) = request.into_parts();
    match parts.method {
        Method::GET => {}
        Method::OPTIONS => return Ok(answer_preflight(&parts.headers, STREAM_METHODS)),
        _ => return Err(ListenerError::Method { allow: STREAM_METHODS }),
    }
    let mut headers = parts.headers;
    let keep_alive = context.listener.config.keep_alive;
    let credentials = context.credentials(&mut headers)?;
    let principal = match context.identify(&endpoint, &credentials).await {
        Ok(principal) => principal,
        Err(reply) => return Ok(build_response(reply, keep_alive, Hold::none(active))),
    };
    let place = context.handler.stream(&principal).ok_or(ListenerError::CallersStreams)?;
    let caller = SessionClient { peer: credentials.peer, principal, endpoint };
    let (out, messages) = MessageQueue::new(context.handler.budget());
    let owner = Arc::new(Owner { caller, proxied: Mutex::default() });
    let id = context.listener.sessions.add(Session { owner: Arc::clone(&owner), out })?;
    let mut first = BytesMut::new();
    sse::endpoint(&mut first, &format!("/messages?session={id}"));
    let sessions = Arc::clone(&context.listener.sessions);
    let events = Messages { messages, id, owner, sessions, handler: Arc::clone(&context.handler), _place: place };
    Ok(stream(HeaderMap::new(), EventStream::new(first.freeze(), Box::pin(events), keep_alive, active)))
}

/// `POST /messages?session=…`: requests are answered on the stream, everything else at once.
pub(crate) async fn answer_message<H: Handler, F: Fallback>(
    context: &ConnectionContext<H, F>,
    request: Request<Incoming>,
) -> Result<ListenerResponse<F>, ListenerError> {
    let (parts, body) = request.into_parts();
    match parts.method {
        Method::POST => {}
        Method::OPTIONS => return Ok(answer_preflight(&parts.headers, MESSAGE_METHODS)),
        _ => return Err(ListenerError::Method { allow: MESSAGE_METHODS }),
    }
    let mut headers = parts.headers;
    check_post(&headers)?;
    let keep_alive = context.listener.config.keep_alive;
    let credentials = context.credentials(&mut headers)?;
    let found = context.listener.sessions.find(session_id(parts.uri.query()));
    let endpoint = found.as_ref().map_or(&Endpoint::All, |session| &session.owner.caller.endpoint);
    let principal = match context.identify(endpoint, &credentials).await {
        Ok(principal) => principal,
        Err(reply) => return Ok(build_response(reply, keep_alive, Hold::none(context.state.begin_request()))),
    };
    // Unknown and foreign look alike.
    let session = found?.of(&principal)?;
    let (body, held) = context.read_body(body, &principal, Arc::clone(context.handler.budget())).await?;

    headers.remove(SESSION);
    if let Some(proxied) = session.owner.proxied.lock().clone() {
        headers.insert(SESSION, proxied);
    }
    let mut caller = session.owner.caller.clone();
    // The same caller, with what this request's own credential grants.
    caller.principal = principal;
    let exchange = caller.with_headers(ExchangeKind::Post(body.clone()), headers);
    let handler = Arc::clone(&context.handler);
    if !matches!(jsonrpc::parse(body, DEPTH, SentBy::Client), Ok(Message::Request(_))) {
        return Ok(build_response(
            handler.handle(exchange).await,
            keep_alive,
            Hold::none(context.state.begin_request()),
        ));
    }
    let gone = session.out.clone();
    let work = async move {
        let reply = handler.handle(exchange).await;
        drop(held);
        session.adopt(&reply, &handler);
        session_client::forward_reply(reply, &session.out).await;
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
    Ok(build_response(accepted, keep_alive, Hold::none(context.state.begin_request())))
}

fn session_id(query: Option<&str>) -> &str {
    let mut pairs = query.unwrap_or_default().split('&');
    pairs.find_map(|pair| pair.strip_prefix("session=")).unwrap_or_default()
}

impl Session {
    /// The session, if it is this principal's.
    fn of(self, principal: &Principal) -> Result<Self, ListenerError> {
        if self.owner.caller.principal == *principal { Ok(self) } else { Err(ListenerError::NoSession) }
    }

    /// Remembers the session that `initialize` brought, and forwards what it says outside calls.
    fn adopt<H: Handler>(&self, reply: &Reply, handler: &Arc<H>) {
        let Some(proxied) = session_client::find_session_id(reply) else { return };
        if self.owner.proxied.lock().replace(proxied.clone()).is_some_and(|before| before == proxied) {
            return;
        }
        let (session, handler) = (self.clone(), Arc::clone(handler));
        tokio::spawn(async move {
            let forward = async {
                if let Some(events) = session.owner.caller.listen(&*handler, ExchangeKind::Listen, &proxied).await {
                    session_client::forward_events(events, &session.out).await;
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
    messages: mpsc::Receiver<QueuedMessage>,
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
        let outgoing = |waiting: QueuedMessage| Outgoing { data: waiting.text, ..Outgoing::default() };
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
