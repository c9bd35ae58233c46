//! HTTP+SSE (2024-11-05), for clients that support nothing newer: a GET opens a stream, and POSTed
//! messages are answered on it. Each stream is a legacy session of the proxy and belongs to the
//! principal that opened it. A session id alone grants no access, and the loss of a stream ends its
//! session and its calls.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::BytesMut;
use futures_util::Stream;
use http::request::Parts;
use http::{HeaderMap, Method};
use lockgate_admission::budget::Hold;
use lockgate_admission::spawn;
use lockgate_protocol::jsonrpc::{self, Message, SentBy};
use lockgate_protocol::sse;
use lockgate_proxy::OpenStream;
use lockgate_proxy::transport::{Endpoint, Exchange, ExchangeKind, Outgoing, Reply};
use parking_lot::Mutex;
use tokio::sync::mpsc;

use crate::connection::ActiveRequest;
use crate::context::{ConnectionContext, Owner, Routed, Session, Sessions};
use crate::error::ListenerError;
use crate::incoming_body::IncomingBody;
use crate::request_headers::check_post;
use crate::response_body::{EventStream, answer_preflight, stream};
use crate::session_client::{self, MessageQueue, QueuedMessage, SESSION, SessionClient};

/// Maximum depth parsed to distinguish requests from notifications; the proxy has its own limit.
const MAX_DEPTH: usize = 128;
const STREAM_METHODS: &str = "GET, OPTIONS";
const MESSAGE_METHODS: &str = "POST, OPTIONS";

/// Opens the stream of `GET /sse` or `GET /servers/{slug}/sse`, and sends the URL for messages.
pub(crate) async fn open_stream(
    context: &ConnectionContext,
    endpoint: Endpoint,
    head: &mut Parts,
    active: ActiveRequest,
) -> Result<Routed, ListenerError> {
    match head.method {
        Method::GET => {}
        Method::OPTIONS => return Ok(answer_preflight(&head.headers, STREAM_METHODS).into()),
        _ => return Err(ListenerError::Method { allow: STREAM_METHODS }),
    }
    let keep_alive = context.listener.config.http.keep_alive;
    let credentials = context.credentials(&mut head.headers)?;
    let principal = match context.identify(&endpoint, &credentials).await {
        Ok(principal) => principal,
        Err(reply) => return Ok(Routed::Reply(reply, Hold::none(active))),
    };
    let place = context.handler.stream(&principal).map_err(ListenerError::CallersStreams)?;
    let handler = Arc::clone(&context.handler);
    let caller = SessionClient { handler, peer: credentials.peer, principal, endpoint };
    let (out, messages) = MessageQueue::new(context.handler.budget());
    let owner = Arc::new(Owner { caller, proxied: Mutex::default() });
    let id = context.listener.sessions.add(Session { owner: Arc::clone(&owner), out })?;
    let mut first = BytesMut::new();
    sse::endpoint(&mut first, &format!("/messages?session={id}"));
    let sessions = Arc::clone(&context.listener.sessions);
    let events = Messages { messages, id, owner, sessions, _place: place };
    let events = EventStream::new(first.freeze(), Box::pin(events), keep_alive, active);
    Ok(stream(HeaderMap::new(), events).into())
}

/// Handles `POST /messages?session=…`: requests are answered on the stream, others at once.
pub(crate) async fn answer_message(
    context: &ConnectionContext,
    head: &mut Parts,
    body: IncomingBody,
    active: ActiveRequest,
) -> Result<Routed, ListenerError> {
    match head.method {
        Method::POST => {}
        Method::OPTIONS => return Ok(answer_preflight(&head.headers, MESSAGE_METHODS).into()),
        _ => return Err(ListenerError::Method { allow: MESSAGE_METHODS }),
    }
    let mut headers = std::mem::take(&mut head.headers);
    check_post(&headers)?;
    let credentials = context.credentials(&mut headers)?;
    let found = context.listener.sessions.find(find_session_id(head.uri.query()));
    let endpoint = match &found {
        Ok(session) => &session.owner.caller.endpoint,
        Err(_) => &Endpoint::All,
    };
    let principal = match context.identify(endpoint, &credentials).await {
        Ok(principal) => principal,
        Err(reply) => return Ok(Routed::Reply(reply, Hold::none(active))),
    };
    // Unknown and foreign sessions are indistinguishable.
    let session = found?.of(&principal)?;
    let (body, held) =
        context.read_body(body, &principal, Arc::clone(context.handler.budget())).await?;

    headers.remove(SESSION);
    if let Some(proxied) = session.owner.proxied.lock().clone() {
        headers.insert(SESSION, proxied);
    }
    let mut caller = session.owner.caller.clone();
    // The same caller, with the grants of this request's own credential.
    caller.principal = principal;
    let exchange = caller.with_headers(ExchangeKind::Post(body.clone()), headers);
    if !matches!(jsonrpc::parse(body, MAX_DEPTH, SentBy::Client), Ok(Message::Request(_))) {
        let reply = context.handler.handle(&exchange).await;
        return Ok(Routed::Reply(reply, Hold::none(active)));
    }
    begin_answer(session, exchange, held).await;
    let accepted = Reply::empty(http::StatusCode::ACCEPTED);
    Ok(Routed::Reply(accepted, Hold::none(active)))
}

/// Answers a request on its session's stream, until the stream's receiver is dropped.
async fn begin_answer(session: Session, exchange: Exchange, held: Hold) {
    let gone = session.out.clone();
    let work = async move {
        let reply = session.owner.caller.handler.handle(&exchange).await;
        drop(held);
        session.adopt(&reply);
        session_client::forward_reply(reply, &session.out).await;
    };
    let mut work = Box::pin(async move {
        tokio::select! {
            () = gone.closed() => {}
            () = work => {}
        }
    });
    // Polled once here, so that a later message cannot overtake the request.
    if poll_fn(|cx| Poll::Ready(work.as_mut().poll(cx))).await.is_pending() {
        spawn(work);
    }
}

fn find_session_id(query: Option<&str>) -> &str {
    let mut pairs = query.unwrap_or("").split('&');
    pairs.find_map(|pair| pair.strip_prefix("session=")).unwrap_or("")
}

/// The messages of a stream. Dropping it ends the session.
struct Messages {
    messages: mpsc::Receiver<QueuedMessage>,
    id: String,
    owner: Arc<Owner>,
    sessions: Arc<Sessions>,
    /// The permit among the caller's streams.
    _place: OpenStream,
}

impl Stream for Messages {
    type Item = Outgoing;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Outgoing>> {
        let waiting = ready!(self.messages.poll_recv(cx));
        Poll::Ready(waiting.map(|waiting| Outgoing { data: waiting.text, ..Outgoing::default() }))
    }
}

impl Drop for Messages {
    fn drop(&mut self) {
        self.sessions.remove(&self.id);
        let Some(proxied) = self.owner.proxied.lock().take() else { return };
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let owner = Arc::clone(&self.owner);
            runtime.spawn(async move { owner.caller.end(&proxied).await });
        }
    }
}

#[cfg(test)]
mod tests;
