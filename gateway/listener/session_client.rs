//! Plays the part of a Streamable HTTP client towards a [`Handler`], for transports that have no
//! headers of their own: keeps the session id that `initialize` brought and pours replies into one
//! line of messages.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::StreamExt;
use http::{HeaderMap, HeaderName, HeaderValue};
use lockgate_admission::budget::{Budget, Hold};
use lockgate_authn::{Peer, Principal};
use lockgate_protocol::write;
use lockgate_proxy::transport::{Endpoint, Events, Exchange, ExchangeKind, Reply, Text, Transport};
use tokio::sync::mpsc;

use crate::error::ListenerError;
use crate::exchange_handler::Handler;

/// Messages that wait for a client that reads slowly.
const BUFFER: usize = 64;
/// What a message that waits takes besides its text.
const OVERHEAD: usize = 1024;

pub(crate) const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");

/// Whoever the messages come from.
#[derive(Clone)]
pub(crate) struct SessionClient {
    pub peer: Peer,
    pub principal: Principal,
    pub endpoint: Endpoint,
}

impl SessionClient {
    /// An exchange of this caller, within `session` if there is one.
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

    /// Ends a session, whatever comes back.
    pub(crate) async fn end<H: Handler>(&self, handler: &H, session: &HeaderValue) {
        drop(handler.handle(self.exchange(ExchangeKind::Delete, Some(session))).await);
    }

    /// The stream of messages outside calls, if the session has one.
    pub(crate) async fn listen<H: Handler>(
        &self,
        handler: &H,
        kind: ExchangeKind,
        session: &HeaderValue,
    ) -> Option<Events> {
        match handler.handle(self.exchange(kind, Some(session))).await {
            Reply::Stream { events, .. } => Some(events),
            _ => None,
        }
    }
}

/// Where messages wait, one after another, for a client that reads them. Each counts in the account
/// of bytes in flight.
#[derive(Clone)]
pub(crate) struct MessageQueue {
    out: mpsc::Sender<QueuedMessage>,
    budget: Arc<Budget>,
}

/// A message in a [`MessageQueue`].
pub(crate) struct QueuedMessage {
    pub text: Text,
    _held: Hold,
}

impl MessageQueue {
    pub(crate) fn new(budget: &Arc<Budget>) -> (Self, mpsc::Receiver<QueuedMessage>) {
        let (out, texts) = mpsc::channel(BUFFER);
        (Self { out, budget: Arc::clone(budget) }, texts)
    }

    /// Waits for room; `false` when nobody reads any more. Without memory for it, an answer becomes
    /// words that say so, and any other large message is left out.
    pub(crate) async fn send(&self, text: Text) -> bool {
        let mut held = Hold::none(Arc::clone(&self.budget));
        let text = match held.admit(text.own_len().saturating_add(OVERHEAD)) {
            Ok(()) => text,
            Err(_) => {
                tracing::info!(
                    bytes = text.len(),
                    "a message was dropped: limits.bytes_in_flight is reached"
                );
                match write::id_of_response(text.start()) {
                    Some(id) => Text::Whole(ListenerError::Unread.text(Some(id))),
                    // The answers to a batch.
                    None if text.start().starts_with(b"[") => {
                        Text::Whole(ListenerError::Unread.text(None))
                    }
                    None => return true,
                }
            }
        };
        self.out.send(QueuedMessage { text, _held: held }).await.is_ok()
    }

    /// Ready when nobody reads any more.
    pub(crate) async fn closed(&self) {
        self.out.closed().await;
    }
}

/// The session id that a reply brought.
pub(crate) fn find_session_id(reply: &Reply) -> Option<HeaderValue> {
    let headers = match reply {
        Reply::Message { headers, .. } | Reply::StreamedMessage { headers, .. } => headers,
        Reply::Empty { headers, .. } | Reply::Stream { headers, .. } => headers,
        Reply::Relayed { headers, .. } => headers,
    };
    headers.get(SESSION).cloned()
}

/// Hands on every message of a reply. Gives `false` when the reply can have none; a stream without
/// any is the silence that a cancelled request gets.
pub(crate) async fn forward_reply(reply: Reply, out: &MessageQueue) -> bool {
    match reply {
        Reply::Message { body, .. } => !body.is_empty() && out.send(body).await,
        // Such a client asks for no streamed message, and its session is here.
        Reply::Empty { .. } | Reply::StreamedMessage { .. } | Reply::Relayed { .. } => false,
        Reply::Stream { events, .. } => {
            forward_events(events, out).await;
            true
        }
    }
}

/// Hands on the messages of a stream until it ends or nobody listens any more.
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

/// A text of our own for the line of messages.
pub(crate) fn text(bytes: impl Into<Bytes>) -> Text {
    Text::Whole(bytes.into())
}
