//! The first steps of client exchanges: authentication and parsing, and the entry point for modern
//! requests of this process. Those of clients enter through their edge. Requests that are rejected
//! before any policy decision are counted, recorded and logged once each; the error sent to the
//! caller is written elsewhere, and may reveal less.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::StatusCode;
use lockgate_authn::{AuthnError, Credentials, Principal};
use lockgate_protocol::code;
use lockgate_protocol::jsonrpc::{self, EnvelopeError, Message, MessageError, Request, SentBy};
use lockgate_telemetry::Rejection;
use lockgate_telemetry::audit::{Refused, RefusedToken};

use crate::gateway::Gateway;
use crate::modern;
use crate::rescue::RequestError;
use crate::server_operation::ServerOperation;
use crate::snapshot::Snapshot;
use crate::transport::{Endpoint, Exchange, ExchangeKind, Reply};

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

    /// Parses the message in the body of an exchange. A refused body has been recorded.
    ///
    /// # Errors
    /// The body is a batch, or the reply to a body that is not a message.
    pub async fn read(
        &self,
        snapshot: &Snapshot,
        exchange: &Exchange,
        body: &Bytes,
    ) -> Result<Message, Unread> {
        let parsed = self.parse(snapshot, &exchange.principal, body.clone()).await;
        let parsed =
            parsed.map_err(|problem| Unread::Refused(self.refuse(&problem, exchange, None)))?;
        parsed.map_err(|refusal| {
            if let MessageError::Invalid { what: EnvelopeError::Batch, .. } = refusal {
                return Unread::Batch;
            }
            let (problem, reply) = RequestError::unreadable(&refusal, body);
            self.record_refused_request(&problem, exchange);
            Unread::Refused(reply)
        })
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

    /// Handles a modern request that this process itself makes for a caller. Boxed here, so that
    /// the path of a call is not compiled in other crates too.
    #[inline(never)]
    pub fn receive_modern<'a>(self: &'a Arc<Self>, exchange: &'a Exchange) -> BoxFuture<'a, Reply> {
        Box::pin(async move {
            let snapshot = self.snapshot();
            let mut read = Err(Unread::Batch);
            if let ExchangeKind::Post(body) = &exchange.kind {
                read = self.read(&snapshot, exchange, body).await;
            }
            let message = match read {
                Ok(message) => message,
                Err(Unread::Refused(reply)) => return reply,
                Err(Unread::Batch) => return self.refuse_other(exchange),
            };
            if let Some(reply) = self.answer_elsewhere(&snapshot, exchange, &message).await {
                return reply;
            }
            let Message::Request(request) = message else { return self.refuse_other(exchange) };
            let operation = self.begin_request(exchange, &request);
            modern::receive(self, snapshot, exchange, request, operation).await
        })
    }

    fn refuse_other(&self, exchange: &Exchange) -> Reply {
        let problem = RequestError::new(code::INVALID_REQUEST, "not a request");
        self.refuse(&problem.status(StatusCode::BAD_REQUEST), exchange, None)
    }

    /// Begins the operation of a request, also in the request scope of the log.
    pub fn begin_request(&self, exchange: &Exchange, request: &Request) -> ServerOperation {
        lockgate_telemetry::request::has_rpc_id(request.id());
        let operation = self.begin_operation(exchange, request);
        operation.tell_log(exchange, request);
        operation
    }

    /// Begins the operation of a request of a batch.
    pub fn begin_operation(&self, exchange: &Exchange, request: &Request) -> ServerOperation {
        ServerOperation::begin(self.tracer.as_ref(), &self.metrics, exchange, request)
    }

    /// Records a request rejected by the listener.
    pub fn record_rejection(&self, why: Rejection, words: &str) {
        self.refuse_at(why, words, None, "", None);
    }

    /// Records the status of an outgoing HTTP response.
    pub fn record_response(&self, status: StatusCode) {
        self.metrics.responded(status.as_u16());
    }

    /// Records a forbidden request outside of MCP at `path`.
    pub fn record_forbidden(&self, words: &str, who: Option<&Principal>, path: &str) {
        self.refuse_at(Rejection::Forbidden, words, who, path, None);
    }

    /// Records a rejected sign-in at `path`.
    pub fn record_refused_sign_in(&self, words: &str, path: &str) {
        self.refuse_at(Rejection::Unauthenticated, words, None, path, None);
    }

    /// Records stored credentials that could not be decrypted and are not used.
    pub fn record_unopened(&self, words: &str) {
        self.refuse_at(Rejection::Credentials, words, None, "", None);
    }

    /// Records a caller that failed authentication or lacks a required scope.
    pub(crate) fn unknown(&self, caller: &lockgate_authn::RefusedCaller, endpoint: &Endpoint) {
        let why = match caller.why {
            AuthnError::Scope => Rejection::Forbidden,
            AuthnError::Unavailable => Rejection::IssuerKeys,
            _ => Rejection::Unauthenticated,
        };
        let token = caller.token.as_deref().map(|token| RefusedToken {
            fault: token.fault,
            claim: token.claim,
            issuer: token.issuer.as_deref(),
            kid: token.kid.as_deref(),
        });
        let words = caller.why.to_string();
        self.refuse_at(why, &words, caller.who.as_ref(), &endpoint.recorded_path(), token);
    }

    /// Records a rejected request of an authenticated caller, with the error returned to it.
    pub fn record_refused_request(&self, problem: &RequestError, exchange: &Exchange) {
        if let Some(rule) = &problem.rule {
            self.metrics.denied(rule, problem.denial);
        }
        let Exchange { principal, endpoint, .. } = exchange;
        let why = problem.classify();
        self.refuse_at(why, &problem.message, Some(principal), &endpoint.recorded_path(), None);
    }

    /// Records a rejected request and returns the response with the error.
    pub fn refuse(&self, problem: &RequestError, exchange: &Exchange, id: Option<&[u8]>) -> Reply {
        self.record_refused_request(problem, exchange);
        problem.reply(id)
    }

    /// Records a notification only if its method is that of a request: it may be an attempt to run
    /// the request unseen.
    pub fn record_refused_notification(&self, note: &Request, exchange: &Exchange) {
        let name = note.method_name();
        if !name.starts_with("notifications/") {
            self.record_refused_request(
                &RequestError::invalid(format!("`{name}` requires an id and was ignored")),
                exchange,
            );
        }
    }

    /// Records a message without a valid session.
    pub fn record_refused_session(&self, words: &'static str, exchange: &Exchange) {
        let Exchange { principal, endpoint, .. } = exchange;
        let path = endpoint.recorded_path();
        self.refuse_at(Rejection::Session, words, Some(principal), &path, None);
    }

    fn refuse_at(
        &self,
        why: Rejection,
        words: &str,
        who: Option<&Principal>,
        endpoint: &str,
        token: Option<RefusedToken<'_>>,
    ) {
        self.metrics.rejected(why);
        let (issuer, subject, key) = match who {
            Some(who) => (&*who.issuer, &*who.subject, who.key_name.as_deref()),
            None => ("", "", None),
        };
        tracing::info!(
            target: "audit",
            decision = "refuse",
            reason = why.as_str(),
            %words,
            issuer,
            subject,
            key,
            fault = token.map(|token| token.fault),
            claim = token.and_then(|token| token.claim),
            token_issuer = token.and_then(|token| token.issuer),
            kid = token.and_then(|token| token.kid),
            "refused"
        );
        if let Some(trail) = &self.audit {
            let who = who.map(|who| (&*who.issuer, &*who.subject));
            trail.refuse(Refused { why, words, who, key, endpoint, token });
        }
    }
}

/// Why a body was not read as a message.
pub enum Unread {
    /// It is a batch.
    Batch,
    /// It is not valid, with the reply.
    Refused(Reply),
}
