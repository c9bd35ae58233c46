//! Batches of messages, which revision 2025-03-26 alone has. Page: basic/index.mdx (2025-03-26).

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use lockgate_authn::Principal;
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
use crate::transport::{Exchange, Reply, Text};

/// Messages of one batch.
const MAX_BATCH: usize = 64;

/// A batch: only in sessions of 2025-03-26. Its requests run side by side, each counted and
/// authorized by itself.
pub(crate) async fn receive_batch(
    gateway: &Arc<Gateway>,
    snapshot: &Arc<Snapshot>,
    principal: &Principal,
    exchange: &Exchange,
    body: &Bytes,
) -> Reply {
    let named = header(&exchange.headers, &SESSION);
    let session = match gateway.session(named, principal, exchange) {
        Some(session) if session.revision == Revision::V2025_03_26 => session,
        _ => {
            let words = "a batch is only taken in a session of protocol version 2025-03-26";
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
    let mut answers = Vec::new();
    for text in texts {
        answers.push(answer_one(
            gateway,
            Arc::clone(snapshot),
            Arc::clone(&session),
            exchange,
            text,
        ));
    }
    let replies = futures_util::future::join_all(answers).await;
    let mut out = vec![b'['];
    for reply in replies {
        for text in collect_texts(reply).await {
            if out.len() > 1 {
                out.push(b',');
            }
            out.extend_from_slice(&text);
        }
    }
    if out.len() == 1 {
        return Reply::accepted();
    }
    out.push(b']');
    Reply::Message {
        status: StatusCode::OK,
        headers: HeaderMap::new(),
        body: Text::Whole(out.into()),
    }
}

fn refuse_batch(gateway: &Gateway, exchange: &Exchange, words: &'static str) -> Reply {
    let problem = RequestError::new(code::INVALID_REQUEST, words).status(StatusCode::BAD_REQUEST);
    gateway.record_refused_request(&problem, exchange);
    problem.reply(None, Era::Legacy)
}

/// One message of a batch.
async fn answer_one(
    gateway: &Arc<Gateway>,
    snapshot: Arc<Snapshot>,
    session: Arc<Session>,
    exchange: &Exchange,
    text: Bytes,
) -> Reply {
    match jsonrpc::parse(text.clone(), snapshot.config.limits.depth, SentBy::Client) {
        Ok(Message::Response(response)) => gateway.take_answer(&session, exchange, &response),
        Ok(Message::Request(request) | Message::Notification(request)) => {
            let principal = exchange.principal.clone();
            let operation = ServerOperation::begin(gateway, exchange, &request);
            let message = (request, operation);
            legacy::receive(gateway, snapshot, principal, session, exchange, message).await
        }
        Err(refusal) => {
            let (problem, reply) = RequestError::unreadable(&refusal, &text);
            gateway.record_refused_request(&problem, exchange);
            reply
        }
    }
}

/// The messages of one answer of a batch; what streams is collected.
async fn collect_texts(reply: Reply) -> Vec<Bytes> {
    use futures_util::StreamExt;
    match reply {
        Reply::Empty { .. } => Vec::new(),
        Reply::Message { body, .. } => vec![body.into_bytes()],
        // Clients of that revision get whole answers.
        Reply::StreamedMessage { .. } => Vec::new(),
        Reply::Stream { events, .. } => {
            let mut events = events.take(4096);
            let mut texts = Vec::new();
            while let Some(event) = events.next().await {
                if !event.data.is_empty() {
                    texts.push(event.data.into_bytes());
                }
            }
            texts
        }
    }
}
