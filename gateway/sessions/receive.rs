//! The entry point for client exchanges: selects the era of each message. Modern requests go to the
//! gateway, others to their session.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, FuturesUnordered, SelectAll};
use http::{HeaderMap, StatusCode};
use lockgate_protocol::code;
use lockgate_protocol::jsonrpc::{self, Message, Request, SentBy};
use lockgate_protocol::key::Key;
use lockgate_protocol::method::Method;
use lockgate_protocol::revision::{Era, Revision};
use lockgate_proxy::Gateway;
use lockgate_proxy::modern;
use lockgate_proxy::receive::Unread;
use lockgate_proxy::rescue::RequestError;
use lockgate_proxy::snapshot::Snapshot;
use lockgate_proxy::transport::{
    Events, Exchange, ExchangeKind, Outgoing, Reply, ReplyBody, SESSION, Text, VERSION, header,
};

use crate::edge::Edge;
use crate::initialize::initialize;
use crate::request;
use crate::request::known_id;
use crate::session::Session;
use crate::stream::{end_session, open_stream};

impl Edge {
    /// Handles an exchange with a client. Dropping the future or the reply's events signals that
    /// the client has disconnected.
    pub async fn receive(self: &Arc<Self>, exchange: &Exchange) -> Reply {
        let snapshot = self.gateway.snapshot();
        let body = match &exchange.kind {
            ExchangeKind::Get | ExchangeKind::Listen => {
                return open_stream(self, &snapshot, exchange);
            }
            ExchangeKind::Delete => {
                return Box::pin(end_session(self, &snapshot, exchange)).await;
            }
            ExchangeKind::Post(body) => body,
        };
        let message = match self.gateway.read(&snapshot, exchange, body).await {
            Ok(message) => message,
            // Boxed because it is rare, to keep the future of a request small.
            Err(Unread::Batch) => {
                return Box::pin(receive_batch(self, &snapshot, exchange, body)).await;
            }
            Err(Unread::Refused(reply)) => return reply,
        };
        self.answer(snapshot, exchange, message).await
    }

    /// Selects the era of a message (protocol: versioning) and answers the message.
    async fn answer(
        self: &Arc<Self>,
        snapshot: Arc<Snapshot>,
        exchange: &Exchange,
        message: Message,
    ) -> Reply {
        let gateway = &self.gateway;
        if let Some(reply) = gateway.answer_elsewhere(&snapshot, exchange, &message).await {
            return reply;
        }
        let request = match message {
            Message::Response(response) => {
                return match self.session_of(exchange) {
                    Some(session) => self.take_answer(&session, exchange, &response),
                    None => self.refuse_unknown_session(exchange, None, None),
                };
            }
            Message::Request(request) | Message::Notification(request) => request,
        };
        let operation = gateway.begin_request(exchange, &request);
        match choose(&request, &exchange.headers) {
            Chosen::Modern => {
                modern::receive(gateway, snapshot, exchange, request, operation).await
            }
            Chosen::Initialize => initialize(self, &snapshot, exchange, &request, &operation),
            Chosen::Legacy => match self.session_of(exchange) {
                Some(session) => {
                    let message = (request, operation);
                    request::receive(gateway, snapshot, session, exchange, message).await
                }
                None => self.refuse_unknown_session(exchange, known_id(&request), Some(&operation)),
            },
        }
    }
}

enum Chosen {
    Modern,
    Initialize,
    Legacy,
}

/// Selects the era of a request. The modern envelope takes precedence over the method, and a legacy
/// version header with a session takes precedence over the envelope.
fn choose(request: &Request, headers: &HeaderMap) -> Chosen {
    let version = header(headers, &VERSION).unwrap_or("");
    let legacy_version =
        Revision::parse(version).is_some_and(|revision| revision.era() == Era::Legacy);
    if legacy_version && headers.contains_key(&SESSION) {
        return Chosen::Legacy;
    }
    if request.meta(Key::MetaProtocolVersion).is_some() || !version.is_empty() && !legacy_version {
        return Chosen::Modern;
    }
    if request.method == Method::Initialize { Chosen::Initialize } else { Chosen::Legacy }
}

// JSON-RPC batches, which exist only in revision 2025-03-26. The response is a single array, or a
// stream if a call sends a message, such as a question, before its response. Pages:
// basic/index.mdx, basic/transports.mdx (2025-03-26).

const MAX_BATCH: usize = 64;

/// Processes a batch in a session of revision 2025-03-26. Its requests run concurrently, each
/// counted and authorized individually.
async fn receive_batch(
    edge: &Arc<Edge>,
    snapshot: &Arc<Snapshot>,
    exchange: &Exchange,
    body: &Bytes,
) -> Reply {
    let gateway = &edge.gateway;
    let session = match edge.session_of(exchange) {
        Some(session) if session.revision == Revision::V2025_03_26 => session,
        _ => {
            let words = "a batch is accepted only in a session of protocol version 2025-03-26";
            return refuse_batch(gateway, exchange, words);
        }
    };
    let depth = snapshot.config.limits.depth;
    let Ok(texts) = jsonrpc::split_batch(body, depth, MAX_BATCH) else {
        let words = "the batch is not valid, or longer than 64 messages";
        return refuse_batch(gateway, exchange, words);
    };
    if texts.is_empty() {
        return refuse_batch(gateway, exchange, "the batch is empty");
    }
    let exchange = Arc::new(own_exchange(exchange));
    let batch = Batch::default();
    for text in texts {
        let edge = Arc::clone(edge);
        let snapshot = Arc::clone(snapshot);
        let answer = answer_one(edge, snapshot, Arc::clone(&session), Arc::clone(&exchange), text);
        batch.pending.push(Box::pin(answer));
    }
    batch.answer().await
}

/// Copies the exchange without its body, to live as long as the responses. Streamed bodies are
/// disabled: clients of that revision get whole responses.
fn own_exchange(exchange: &Exchange) -> Exchange {
    Exchange {
        kind: ExchangeKind::Post(Bytes::new()),
        takes_streamed_body: false,
        ..exchange.clone()
    }
}

#[derive(Default)]
struct Batch {
    pending: FuturesUnordered<BoxFuture<'static, Reply>>,
    done: Vec<Text>,
    /// The streams of calls; merged, they cannot be resumed.
    streams: SelectAll<Events>,
}

impl Batch {
    async fn answer(mut self) -> Reply {
        while let Some(reply) = self.pending.next().await {
            self.take(reply);
            if !self.streams.is_empty() {
                let done = std::mem::take(&mut self.done);
                let done = stream::iter(done.into_iter().map(Outgoing::from));
                let rest = stream::unfold(self, Self::next);
                return Reply::events(Box::pin(done.chain(rest)));
            }
        }
        if self.done.is_empty() {
            return Reply::accepted();
        }
        let texts: Vec<Bytes> = self.done.into_iter().map(Text::into_bytes).collect();
        let body = [b"[", &*texts.join(&b','), b"]"].concat();
        Reply::message(body)
    }

    fn take(&mut self, reply: Reply) {
        match reply.body {
            ReplyBody::Empty | ReplyBody::Streamed(_) | ReplyBody::Relayed(_) => {}
            ReplyBody::Message(text) => self.done.push(text),
            ReplyBody::Events(events) => self.streams.push(events),
        }
    }

    /// Returns the next message of any stream or pending call.
    async fn next(mut self) -> Option<(Outgoing, Self)> {
        loop {
            if let Some(text) = self.done.pop() {
                return Some((text.into(), self));
            }
            tokio::select! {
                Some(sent) = self.streams.next() => {
                    if !sent.data.is_empty() {
                        return Some((sent.data.into(), self));
                    }
                }
                Some(reply) = self.pending.next() => self.take(reply),
                else => return None,
            }
        }
    }
}

fn refuse_batch(gateway: &Gateway, exchange: &Exchange, words: &'static str) -> Reply {
    let problem = RequestError::new(code::INVALID_REQUEST, words).status(StatusCode::BAD_REQUEST);
    gateway.refuse(&problem, exchange, None)
}

async fn answer_one(
    edge: Arc<Edge>,
    snapshot: Arc<Snapshot>,
    session: Arc<Session>,
    exchange: Arc<Exchange>,
    text: Bytes,
) -> Reply {
    let gateway = &edge.gateway;
    let exchange = &*exchange;
    match jsonrpc::parse(text.clone(), snapshot.config.limits.depth, SentBy::Client) {
        Ok(Message::Response(response)) => edge.take_answer(&session, exchange, &response),
        Ok(Message::Request(request) | Message::Notification(request)) => {
            let operation = gateway.begin_operation(exchange, &request);
            let message = (request, operation);
            request::receive(gateway, snapshot, session, exchange, message).await
        }
        Err(refusal) => {
            let (problem, reply) = RequestError::unreadable(&refusal, &text);
            gateway.record_refused_request(&problem, exchange);
            reply
        }
    }
}
