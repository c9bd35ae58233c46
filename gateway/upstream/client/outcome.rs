//! The result of a call: its classification, its effect on the breaker, and the CLIENT span of a
//! request to the server.

use std::time::Instant;

use lockgate_protocol::jsonrpc::{Outcome, Response};
use lockgate_protocol::key::Key;
use lockgate_protocol::{code, scan};
use lockgate_telemetry::{Network, Note, OperationSpan};

use crate::breaker::Breaker;
use crate::call::{Answer, AnswerKind, Call, ServerId};
use crate::connection::{Connection, ServerTransport};
use crate::failure::{Result, UpstreamError, UpstreamErrorKind};
use crate::http::Remote;
use crate::shared::Shared;

pub(super) fn is_header_mismatch(answer: &Answer) -> bool {
    matches!(answer.outcome, Outcome::Error(error) if error.code == code::HEADER_MISMATCH)
}

pub(super) fn no_header_mismatch(answer: Answer) -> Result<Answer> {
    if is_header_mismatch(&answer) {
        return Err(UpstreamError::new(
            UpstreamErrorKind::Garbage,
            "the server rejects the headers that its own tool definition requires",
        ));
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

/// Reports the result of a call to the breaker, also when the call was dropped.
pub(super) struct Verdict<'a>(pub(super) Option<&'a Breaker>);

impl Verdict<'_> {
    pub(super) fn pass(mut self, result: &Result<Answer>, server: &ServerId) {
        let Some(breaker) = self.0.take() else { return };
        match result {
            Err(failure) if failure.is_transport() => {
                if breaker.failure(Instant::now()) {
                    breaker.because(failure.words.clone());
                    tracing::warn!(%server, %failure, "circuit breaker opened");
                }
            }
            Err(failure)
                if failure.is_refusal() || failure.kind == UpstreamErrorKind::Unavailable =>
            {
                breaker.abandon(Instant::now())
            }
            _ => breaker.success(),
        }
    }
}

impl Drop for Verdict<'_> {
    fn drop(&mut self) {
        if let Some(breaker) = self.0.take() {
            breaker.abandon(Instant::now());
        }
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
