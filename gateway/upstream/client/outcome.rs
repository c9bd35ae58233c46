//! The result of a call: its classification, its effect on the breaker, the CLIENT span of a
//! request to the server, and its retry: once, and only if the call certainly did not run or is
//! safe to run twice; also with another credential if the server refuses one that changes. A tool
//! call that may have run is never repeated. Calls with a credential that changes end with their
//! client.

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::HeaderValue;
use lockgate_protocol::jsonrpc::{Outcome, Response};
use lockgate_protocol::key::Key;
use lockgate_protocol::{code, scan};
use lockgate_telemetry::{Network, Note, OperationSpan};

use crate::breaker::Breaker;
use crate::call::{Answer, AnswerKind, Authorization, Call, ClientChannel, ServerId};
use crate::connection::{Connection, ServerTransport};
use crate::failure::{Result, UpstreamError, UpstreamErrorKind};
use crate::http::Remote;
use crate::shared::Shared;

pub(super) fn is_header_mismatch(answer: &Answer) -> bool {
    matches!(answer.outcome, Outcome::Error(error) if error.code == code::HEADER_MISMATCH)
}

fn no_header_mismatch(answer: Answer) -> Result<Answer> {
    if is_header_mismatch(&answer) {
        return Err(UpstreamErrorKind::Garbage
            .error("the server rejects the headers that its own tool definition requires"));
    }
    Ok(answer)
}

/// Classifies a response by its `resultType`.
pub(super) fn read(response: Response, modern: bool) -> Result<Answer> {
    let kind = match &response.outcome {
        Outcome::Error(_) => AnswerKind::Error,
        Outcome::Result(..) if !modern => AnswerKind::Complete,
        Outcome::Result(_, members) => {
            let kind = scan::get(members, Key::ResultType);
            match kind.map(|kind| kind.of(&response.text)) {
                None | Some(b"\"complete\"") => AnswerKind::Complete,
                Some(b"\"input_required\"") => AnswerKind::InputRequired,
                Some(b"\"task\"") => AnswerKind::Task,
                Some(_) => {
                    return Err(UpstreamError::garbage(
                        "the server returned an unsupported kind of result",
                    ));
                }
            }
        }
    };
    Ok(Answer { text: response.text, outcome: response.outcome, kind })
}

/// Reports the result of a call to the breaker.
pub(super) fn report(breaker: &Breaker, result: &Result<Answer>, server: &ServerId) {
    match result {
        Err(failure) if failure.is_transport() => {
            if breaker.failure(Instant::now()) {
                breaker.because(failure.words.clone());
                tracing::warn!(%server, %failure, "circuit breaker opened");
            }
        }
        Err(failure) if failure.is_refusal() || failure.kind == UpstreamErrorKind::Unavailable => {
            breaker.abandon(Instant::now())
        }
        _ => breaker.success(),
    }
}

/// Starts the span of a request, and mints its id, if the span is recorded.
pub(super) fn begin_span(
    shared: &Shared,
    call: &Call<'_>,
    connection: &Connection,
) -> Option<(u64, Box<OperationSpan>)> {
    let mut span = call.trace.as_ref()?.begin(call.method().as_str())?;
    let id = connection.mint_id();
    span.set_target(call.target, true);
    span.set_request_id(id.to_string().as_bytes());
    span.set_protocol(connection.peer.revision.as_str());
    describe_way(&mut span, shared, connection);
    span.note(Note::Server, &shared.id.to_string());
    Some((id, span))
}

fn describe_way(span: &mut OperationSpan, shared: &Shared, connection: &Connection) {
    let mut version = None;
    if let ServerTransport::Http(transport) = &connection.transport {
        version = transport.version();
        if let Some(session) = transport.session() {
            span.set_session(&session);
        }
    }
    let Some(Remote { url, .. }) = &shared.remote else {
        return span.set_network(Network::Pipe);
    };
    span.set_network(Network::Http(version));
    if let Some(host) = url.host_str() {
        span.set_peer(host.trim_matches(['[', ']']), url.port_or_known_default());
    }
}

impl Shared {
    /// Retries the call if permitted, or returns the error of the first attempt.
    pub(super) async fn retry(
        self: &Arc<Self>,
        first: Result<Answer>,
        connection: &Arc<Connection>,
        call: &Call<'_>,
        channel: Option<Arc<dyn ClientChannel>>,
    ) -> Result<Answer> {
        let Err(failure) = first else {
            // The server refused headers made from an outdated tool definition, so nothing ran.
            self.stale.notify_one();
            tokio::time::sleep(Duration::from_millis(500)).await;
            return self.send(connection, call, channel).await.and_then(no_header_mismatch);
        };
        if call.sink.as_ref().is_some_and(|sink| sink.has_begun()) {
            return Err(failure);
        }
        match failure.kind {
            UpstreamErrorKind::SessionLost => {
                self.renew(call, connection, "the server no longer has the session");
                if !call.method().is_safe() {
                    let words = "the server no longer had the session; a new session is being \
                        opened, and the call was not retried";
                    return Err(UpstreamErrorKind::Lost.error(words));
                }
            }
            UpstreamErrorKind::Lost if call.method().is_safe() => {}
            // The connection ended while it was idle: no byte of the call was sent.
            UpstreamErrorKind::Lost | UpstreamErrorKind::Unavailable
                if !failure.sent && !connection.is_open() =>
            {
                self.renew(call, connection, "the connection is closed");
            }
            UpstreamErrorKind::Unavailable if !failure.sent => {
                self.suspect.notify_one();
                return Err(failure);
            }
            _ => return Err(failure),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        let route = self.connection_for(call.caller, (call.method(), call.target)).await?;
        self.send(&route.connection, call, channel).await
    }

    /// Makes a call that the server refused before it has run once more, with another credential.
    pub(super) async fn call_again(
        self: &Arc<Self>,
        authorization: &dyn Authorization,
        used: Option<HeaderValue>,
        call: &Call<'_>,
        mut answered: Result<Answer>,
    ) -> Result<Answer> {
        if authorization.renew(used).await {
            answered = self.run_until_closed(call).await;
        }
        match answered {
            Err(failure) if failure.kind == UpstreamErrorKind::NeedsAuth => {
                Err(authorization.explain(failure).await)
            }
            answered => answered,
        }
    }

    /// Runs a call. One with a credential that may end is ended with the client.
    pub(super) async fn run_until_closed(self: &Arc<Self>, call: &Call<'_>) -> Result<Answer> {
        let mut running = pin!(self.run(call));
        if self.around.authorization.is_none() {
            return running.await;
        }
        tokio::select! {
            biased;
            answered = &mut running => answered,
            // No prompt, after which the call would be made again.
            () = self.closing.cancelled() => {
                Err(UpstreamError::lost("the account was disconnected during the call"))
            }
        }
    }
}
