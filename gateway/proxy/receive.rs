//! The entry point for client exchanges: parses each message and passes it to the module of its
//! era.

use std::sync::Arc;

use bytes::Bytes;
use http::HeaderMap;
use lockgate_authn::{Credentials, Principal};
use lockgate_protocol::jsonrpc::{self, EnvelopeError, Message, MessageError, Request, SentBy};
use lockgate_protocol::meta;
use lockgate_protocol::method::Method;
use lockgate_protocol::revision::{Era, Revision};

use crate::gateway::Gateway;
use crate::headers::{SESSION, VERSION, header};
use crate::rescue::RequestError;
use crate::send_on::{self, answer_elsewhere, find_way};
use crate::server_operation::ServerOperation;
use crate::snapshot::Snapshot;
use crate::transport::{Endpoint, Exchange, ExchangeKind, Reply};
use crate::{batch, legacy, modern};

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
            RequestError::unauthenticated(refused.why, &challenge).reply(None, Era::Legacy)
        })
    }

    /// Returns the public document at a path, if any: the protected resource metadata (RFC 9728),
    /// or the keys with which servers verify identity assertions.
    #[must_use]
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
                return match self.peers.get() {
                    None => legacy::end_session(self, &snapshot, exchange),
                    Some(peers) => {
                        let ended = send_on::end_session(self, &**peers, &snapshot, exchange);
                        Box::pin(ended).await
                    }
                };
            }
            ExchangeKind::Post(body) => body,
        };
        let parsed = match self.parse(&snapshot, &exchange.principal, body.clone()).await {
            Ok(parsed) => parsed,
            Err(problem) => {
                self.record_refused_request(&problem, exchange);
                return problem.reply(None, Era::Legacy);
            }
        };
        let message = match parsed {
            Ok(message) => message,
            Err(MessageError::Invalid { what: EnvelopeError::Batch, .. }) => {
                let batch = batch::receive_batch(self, &snapshot, exchange, body);
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
            let Ok(turn) = self.cpu_pool.turn(principal.caller_id()).await else {
                let wait = self.cpu_pool.limit().expected_wait();
                return Err(RequestError::too_many_judgements(wait));
            };
            Ok(turn.run(move || jsonrpc::parse(body, depth, SentBy::Client)).await)
        })
        .await
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
        let session_id = header(&exchange.headers, &SESSION);
        match message {
            Message::Response(response) => match self.session(session_id, exchange) {
                Some(session) => self.take_answer(&session, exchange, &response),
                None => self.refuse_unknown_session(exchange, None, None),
            },
            Message::Request(request) | Message::Notification(request) => {
                lockgate_telemetry::request::has_rpc_id(request.id());
                let operation = ServerOperation::begin(self, exchange, &request);
                operation.tell_log(exchange, &request);
                match choose(&request, &exchange.headers) {
                    Chosen::Modern => {
                        modern::receive(self, snapshot, exchange, request, operation).await
                    }
                    Chosen::Initialize => {
                        legacy::initialize(self, &snapshot, exchange, &request, &operation)
                    }
                    Chosen::Legacy => match self.session(session_id, exchange) {
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

enum Chosen {
    Modern,
    Initialize,
    Legacy,
}

/// Selects the era of a request. The modern envelope takes precedence over the method, and a legacy
/// version header with a session takes precedence over the envelope.
fn choose(request: &Request, headers: &HeaderMap) -> Chosen {
    let version = header(headers, &VERSION).unwrap_or("");
    let legacy_version = match Revision::parse(version) {
        Some(revision) => revision.era() == Era::Legacy,
        None => false,
    };
    if legacy_version && headers.contains_key(&SESSION) {
        return Chosen::Legacy;
    }
    if request.meta(meta::PROTOCOL_VERSION).is_some() || !version.is_empty() && !legacy_version {
        return Chosen::Modern;
    }
    if request.method == Method::Initialize { Chosen::Initialize } else { Chosen::Legacy }
}
