//! A Streamable HTTP client of the gateway, for transports without headers: stores the session id
//! from `initialize` and forwards the messages of all replies to a queue.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::StreamExt;
use http::{HeaderMap, HeaderName, HeaderValue};
use lockgate_admission::budget::{Budget, Hold};
use lockgate_authn::{Peer, Principal};
use lockgate_protocol::write;
use lockgate_proxy::transport::{
    Endpoint, Events, Exchange, ExchangeKind, Reply, ReplyBody, Text, Transport,
};
use tokio::sync::mpsc;

use crate::error::ListenerError;
use crate::gateway_handler::Handler;

/// Capacity of the queue to a client, in messages.
const QUEUE_CAPACITY: usize = 64;
/// Bytes charged for a queued message besides its text.
const MESSAGE_OVERHEAD: usize = 1024;

pub(crate) const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");

#[derive(Clone)]
pub(crate) struct SessionClient {
    pub handler: Arc<Handler>,
    pub peer: Peer,
    pub principal: Principal,
    pub endpoint: Endpoint,
}

impl SessionClient {
    /// Returns an exchange of this caller, within `session` if present.
    pub(crate) fn exchange(&self, kind: ExchangeKind, session: Option<&HeaderValue>) -> Exchange {
        let mut headers = HeaderMap::new();
        if let Some(session) = session {
            headers.insert(SESSION, session.clone());
        }
        self.with_headers(kind, headers)
    }

    pub(crate) fn with_headers(&self, kind: ExchangeKind, headers: HeaderMap) -> Exchange {
        let endpoint = self.endpoint.clone();
        let principal = self.principal.clone();
        Exchange {
            endpoint,
            transport: Transport::Mcp,
            peer: self.peer,
            credentials: None,
            principal,
            kind,
            headers,
            takes_streamed_body: false,
        }
    }

    /// Ends a session. The reply is ignored.
    pub(crate) async fn end(&self, session: &HeaderValue) {
        drop(self.handler.handle(&self.exchange(ExchangeKind::Delete, Some(session))).await);
    }

    /// Opens the stream of messages outside calls, if the session supports it.
    pub(crate) async fn listen(&self, kind: ExchangeKind, session: &HeaderValue) -> Option<Events> {
        match self.handler.handle(&self.exchange(kind, Some(session))).await {
            Reply { body: ReplyBody::Events(events), .. } => Some(events),
            _ => None,
        }
    }
}

/// A queue of messages to a client. Queued messages are charged to the budget.
#[derive(Clone)]
pub(crate) struct MessageQueue {
    out: mpsc::Sender<QueuedMessage>,
    budget: Arc<Budget>,
}

pub(crate) struct QueuedMessage {
    pub text: Text,
    _held: Hold,
}

impl MessageQueue {
    pub(crate) fn new(budget: &Arc<Budget>) -> (Self, mpsc::Receiver<QueuedMessage>) {
        let (out, texts) = mpsc::channel(QUEUE_CAPACITY);
        (Self { out, budget: Arc::clone(budget) }, texts)
    }

    /// Queues a message, waiting for capacity. Returns `false` if the receiver is dropped. Without
    /// memory, a response becomes an error, and any other large message is dropped.
    pub(crate) async fn send(&self, text: Text) -> bool {
        let mut held = Hold::none(Arc::clone(&self.budget));
        let text = match held.admit(text.own_len().saturating_add(MESSAGE_OVERHEAD)) {
            Ok(()) => text,
            Err(_) => {
                tracing::info!(
                    bytes = text.len(),
                    "a message was dropped: limits.bytes_in_flight is reached"
                );
                match write::id_of_response(text.start()) {
                    Some(id) => Text::Whole(ListenerError::Unread.text(Some(id))),
                    // The responses to a batch.
                    None if text.start().starts_with(b"[") => {
                        Text::Whole(ListenerError::Unread.text(None))
                    }
                    None => return true,
                }
            }
        };
        self.out.send(QueuedMessage { text, _held: held }).await.is_ok()
    }

    /// Completes when the receiver is dropped.
    pub(crate) async fn closed(&self) {
        self.out.closed().await;
    }
}

pub(crate) fn find_session_id(reply: &Reply) -> Option<HeaderValue> {
    reply.header(&SESSION).cloned()
}

/// Forwards all messages of a reply. Returns `false` if the reply cannot contain any; a stream
/// without messages is the normal reply to a cancelled request.
pub(crate) async fn forward_reply(reply: Reply, out: &MessageQueue) -> bool {
    match reply.body {
        ReplyBody::Message(text) => !text.is_empty() && out.send(text).await,
        // `takes_streamed_body` is unset, and the session belongs to this gateway.
        ReplyBody::Empty | ReplyBody::Streamed(_) | ReplyBody::Relayed(_) => false,
        ReplyBody::Events(events) => {
            forward_events(events, out).await;
            true
        }
    }
}

/// Forwards the messages of a stream until it ends or the receiver is dropped.
pub(crate) async fn forward_events(mut events: Events, out: &MessageQueue) {
    while let Some(event) = events.next().await {
        if event.data.is_empty() {
            continue;
        }
        if !out.send(event.data).await {
            break;
        }
    }
}

pub(crate) fn text(bytes: impl Into<Bytes>) -> Text {
    Text::Whole(bytes.into())
}
