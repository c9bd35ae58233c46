//! The classification of a call's result, and its effect on the breaker.

use std::time::Instant;

use lockgate_protocol::code;
use lockgate_protocol::jsonrpc::{Outcome, Response};
use lockgate_protocol::key::Key;
use lockgate_protocol::scan;

use crate::breaker::Breaker;
use crate::call::{Answer, AnswerKind};
use crate::failure::{UpstreamError, UpstreamErrorKind};
use crate::server_id::ServerId;

pub(super) fn is_header_mismatch(answer: &Answer) -> bool {
    matches!(answer.outcome, Outcome::Error(error) if error.code == code::HEADER_MISMATCH)
}

pub(super) fn no_header_mismatch(answer: Answer) -> Result<Answer, UpstreamError> {
    if is_header_mismatch(&answer) {
        return Err(UpstreamError::new(
            UpstreamErrorKind::Garbage,
            "the server rejects the headers that its own tool definition requires",
        ));
    }
    Ok(answer)
}

/// Classifies a response by its `resultType`.
pub(super) fn read(response: Response, modern: bool) -> Result<Answer, UpstreamError> {
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
                    return Err(UpstreamError::new(
                        UpstreamErrorKind::Garbage,
                        "the server returned an unsupported kind of result",
                    )
                    .after_send());
                }
            }
        }
    };
    Ok(Answer { text: response.text, outcome: response.outcome, kind })
}

/// Reports the result of a call to the breaker, also when the call was dropped.
pub(super) struct Verdict<'a>(pub(super) Option<&'a Breaker>);

impl Verdict<'_> {
    pub(super) fn pass(mut self, result: &Result<Answer, UpstreamError>, server: &ServerId) {
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
