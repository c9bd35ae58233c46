//! JSON-RPC batches, which exist only in revision 2025-03-26. The response is a single array, or a
//! stream if a call sends a message, such as a question, before its response. Pages:
//! basic/index.mdx, basic/transports.mdx (2025-03-26).

use std::sync::Arc;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, FuturesUnordered, SelectAll};
use http::StatusCode;
use lockgate_protocol::code;
use lockgate_protocol::jsonrpc::{self, Message, SentBy};
use lockgate_protocol::revision::{Era, Revision};

use crate::gateway::Gateway;
use crate::headers::{SESSION, header};
use crate::legacy;
use crate::rescue::RequestError;
use crate::server_operation::ServerOperation;
use crate::session::Session;
use crate::snapshot::Snapshot;
use crate::transport::{Events, Exchange, ExchangeKind, Outgoing, Reply, ReplyBody, Text};

const MAX_BATCH: usize = 64;

/// Processes a batch in a session of revision 2025-03-26. Its requests run concurrently, each
/// counted and authorized individually.
pub(crate) async fn receive_batch(
    gateway: &Arc<Gateway>,
    snapshot: &Arc<Snapshot>,
    exchange: &Exchange,
    body: &Bytes,
) -> Reply {
    let named = header(&exchange.headers, &SESSION);
    let session = match gateway.session(named, exchange) {
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
        let gateway = Arc::clone(gateway);
        let snapshot = Arc::clone(snapshot);
        let answer =
            answer_one(gateway, snapshot, Arc::clone(&session), Arc::clone(&exchange), text);
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
    streams: SelectAll<Events>,
}

impl Batch {
    async fn answer(mut self) -> Reply {
        while let Some(reply) = self.pending.next().await {
            self.take(reply);
            if !self.streams.is_empty() {
                let done = std::mem::take(&mut self.done);
                let done = stream::iter(done.into_iter().map(event));
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
                return Some((event(text), self));
            }
            tokio::select! {
                Some(sent) = self.streams.next() => {
                    if !sent.data.is_empty() {
                        return Some((event(sent.data), self));
                    }
                }
                Some(reply) = self.pending.next() => self.take(reply),
                else => return None,
            }
        }
    }
}

/// Creates an event without an id, because merged streams cannot be resumed.
fn event(data: Text) -> Outgoing {
    Outgoing { data, ..Outgoing::default() }
}

fn refuse_batch(gateway: &Gateway, exchange: &Exchange, words: &'static str) -> Reply {
    let problem = RequestError::new(code::INVALID_REQUEST, words).status(StatusCode::BAD_REQUEST);
    gateway.record_refused_request(&problem, exchange);
    problem.reply(None, Era::Legacy)
}

async fn answer_one(
    gateway: Arc<Gateway>,
    snapshot: Arc<Snapshot>,
    session: Arc<Session>,
    exchange: Arc<Exchange>,
    text: Bytes,
) -> Reply {
    let gateway = &gateway;
    let exchange = &*exchange;
    match jsonrpc::parse(text.clone(), snapshot.config.limits.depth, SentBy::Client) {
        Ok(Message::Response(response)) => gateway.take_answer(&session, exchange, &response),
        Ok(Message::Request(request) | Message::Notification(request)) => {
            let operation = ServerOperation::begin(gateway, exchange, &request);
            let message = (request, operation);
            legacy::receive(gateway, snapshot, session, exchange, message).await
        }
        Err(refusal) => {
            let (problem, reply) = RequestError::unreadable(&refusal, &text);
            gateway.record_refused_request(&problem, exchange);
            reply
        }
    }
}
