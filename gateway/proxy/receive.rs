//! The entry point for client exchanges: parses each message and passes it to the module of its
//! era.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, FuturesUnordered, SelectAll};
use http::{HeaderMap, StatusCode};
use lockgate_authn::{Credentials, Principal};
use lockgate_protocol::code;
use lockgate_protocol::jsonrpc::{self, EnvelopeError, Message, MessageError, Request, SentBy};
use lockgate_protocol::key::Key;
use lockgate_protocol::method::Method;
use lockgate_protocol::revision::{Era, Revision};

use crate::gateway::Gateway;
use crate::rescue::RequestError;
use crate::send_on::{answer_elsewhere, find_way};
use crate::server_operation::ServerOperation;
use crate::session::Session;
use crate::snapshot::Snapshot;
use crate::transport::{
    Endpoint, Events, Exchange, ExchangeKind, Outgoing, Reply, ReplyBody, SESSION, Text, VERSION,
    header,
};
use crate::{legacy, modern};

/// Size in bytes above which parsing would block the thread for too long.
const LARGE_MESSAGE: usize = 1024 * 1024;

impl Gateway {
    /// Authenticates the sender of an exchange at an endpoint. Called before the rest of the
    /// exchange is read.
    ///
    /// # Errors
    /// The response to an unauthenticated or unauthorized caller.
    pub async fn identify(
        &self,
        endpoint: &Endpoint,
        credentials: &Credentials,
    ) -> Result<Principal, Reply> {
        let authenticator = Arc::clone(&self.snapshot.load().authenticator);
        authenticator.authenticate(credentials, endpoint.resource()).await.map_err(|refused| {
            self.unknown(&refused, endpoint);
            let challenge = authenticator.challenge(refused.why, endpoint.resource());
            RequestError::unauthenticated(refused.why, &challenge).reply(None)
        })
    }

    /// Returns the public document at a path, if any: the protected resource metadata (RFC 9728),
    /// or the keys with which servers verify identity assertions.
    pub fn metadata(&self, path: &str) -> Option<String> {
        let snapshot = self.snapshot.load();
        if let Some(signer) = &snapshot.signer
            && let Some(keys) = signer.key_set(path)
        {
            return Some(keys);
        }
        let document = snapshot.authenticator.metadata(path);
        document.or_else(|| self.find_discovery(&snapshot, path))
    }

    /// Handles an exchange with a client. Dropping the future or the reply's events signals that
    /// the client has disconnected.
    pub async fn receive(self: &Arc<Self>, exchange: &Exchange) -> Reply {
        let snapshot = self.snapshot();
        let body = match &exchange.kind {
            ExchangeKind::Get | ExchangeKind::Listen => {
                return legacy::open_stream(self, &snapshot, exchange);
            }
            ExchangeKind::Delete => {
                return Box::pin(legacy::end_session(self, &snapshot, exchange)).await;
            }
            ExchangeKind::Post(body) => body,
        };
        let parsed = match self.parse(&snapshot, &exchange.principal, body.clone()).await {
            Ok(parsed) => parsed,
            Err(problem) => return self.refuse(&problem, exchange, None),
        };
        let message = match parsed {
            Ok(message) => message,
            Err(MessageError::Invalid { what: EnvelopeError::Batch, .. }) => {
                let batch = receive_batch(self, &snapshot, exchange, body);
                // Boxed because it is rare, to keep the future of a request small.
                return Box::pin(batch).await;
            }
            Err(refusal) => {
                let (problem, reply) = RequestError::unreadable(&refusal, body);
                self.record_refused_request(&problem, exchange);
                return reply;
            }
        };
        self.message(snapshot, exchange, message).await
    }

    /// Parses a message. Large messages are parsed on a separate thread, so that others on this
    /// thread do not wait.
    async fn parse(
        &self,
        snapshot: &Snapshot,
        principal: &Principal,
        body: Bytes,
    ) -> Result<Result<Message, MessageError>, RequestError> {
        let depth = snapshot.config.limits.depth;
        if body.len() <= LARGE_MESSAGE {
            return Ok(jsonrpc::parse(body, depth, SentBy::Client));
        }
        Box::pin(async move {
            let turn = self.wait_for_turn(principal).await?;
            Ok(turn.run(move || jsonrpc::parse(body, depth, SentBy::Client)).await)
        })
        .await
    }

    /// Does the same as [`Self::receive`], for callers other than the listener: boxed here, so that
    /// the path of a call is not compiled in their crates too.
    #[inline(never)]
    pub fn receive_boxed<'a>(self: &'a Arc<Self>, exchange: &'a Exchange) -> BoxFuture<'a, Reply> {
        Box::pin(self.receive(exchange))
    }

    /// Selects the era of a message (protocol: versioning) and passes the message to that era's
    /// module.
    pub(crate) async fn message(
        self: &Arc<Self>,
        snapshot: Arc<Snapshot>,
        exchange: &Exchange,
        message: Message,
    ) -> Reply {
        if let Some(peers) = self.peers.get()
            && let Some(way) = find_way(&snapshot, exchange, &message)
            && let Some(reply) =
                Box::pin(answer_elsewhere(self, &**peers, &snapshot, exchange, &message, way)).await
        {
            return reply;
        }
        match message {
            Message::Response(response) => match self.session_of(exchange) {
                Some(session) => self.take_answer(&session, exchange, &response),
                None => self.refuse_unknown_session(exchange, None, None),
            },
            Message::Request(request) | Message::Notification(request) => {
                lockgate_telemetry::request::has_rpc_id(request.id());
                let operation = self.begin_operation(exchange, &request);
                operation.tell_log(exchange, &request);
                match choose(&request, &exchange.headers) {
                    Chosen::Modern => {
                        modern::receive(self, snapshot, exchange, request, operation).await
                    }
                    Chosen::Initialize => {
                        legacy::initialize(self, &snapshot, exchange, &request, &operation)
                    }
                    Chosen::Legacy => match self.session_of(exchange) {
                        Some(session) => {
                            let message = (request, operation);
                            legacy::receive(self, snapshot, session, exchange, message).await
                        }
                        None => {
                            let id =
                                if request.id().is_empty() { None } else { Some(request.id()) };
                            self.refuse_unknown_session(exchange, id, Some(&operation))
                        }
                    },
                }
            }
        }
    }
}

impl Gateway {
    fn begin_operation(&self, exchange: &Exchange, request: &Request) -> ServerOperation {
        ServerOperation::begin(self.tracer.as_ref(), &self.metrics, exchange, request)
    }

    /// Returns the session that an exchange names.
    fn session_of(&self, exchange: &Exchange) -> Option<Arc<Session>> {
        self.session(header(&exchange.headers, &SESSION), exchange)
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
    gateway: &Arc<Gateway>,
    snapshot: &Arc<Snapshot>,
    exchange: &Exchange,
    body: &Bytes,
) -> Reply {
    let session = match gateway.session_of(exchange) {
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
            let operation = gateway.begin_operation(exchange, &request);
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
