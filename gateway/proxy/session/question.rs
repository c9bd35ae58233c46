//! What a session's client is asked: a request of ours on one of its streams, and the answer that
//! comes by POST. A question waits for a bounded time, and ends with its session.

use bytes::Bytes;
use lockgate_protocol::code;
use lockgate_protocol::jsonrpc::{Outcome, Response};
use lockgate_protocol::method::Method;
use lockgate_protocol::question;
use lockgate_upstream::QuestionError;
use tokio::sync::oneshot;

use super::{Log, Session};
use crate::answers::Question;

/// Questions of one session that wait for answers.
const MAX_QUESTIONS: usize = 64;

impl Session {
    /// The client answers a question.
    pub(crate) fn answer(&self, response: &Response) {
        let Some(waiting) =
            response.number().and_then(|id| self.state(|state| state.questions.remove(&id)))
        else {
            return; // late, or never asked
        };
        let answer = match &response.outcome {
            Outcome::Result(span, _) => Ok(response.text.slice(span.range())),
            Outcome::Error(error) => Err(QuestionError::Refused {
                code: error.code,
                message: error.message(&response.text).into_owned(),
            }),
        };
        let _ = waiting.send(answer);
    }

    /// An answer as far as it is one to what was asked.
    fn check_answer(&self, asked: &Question, answer: &[u8]) -> Result<Bytes, QuestionError> {
        let refused = |words: String| {
            tracing::debug!(words, "a client's answer to a question does not fit");
            QuestionError::Refused {
                code: code::INVALID_PARAMS,
                message: "the client's answer does not fit".into(),
            }
        };
        let most = self.limits.answer_bytes;
        if answer.len() > most {
            return Err(refused(format!("more than {most} bytes (limits.answer_bytes)")));
        }
        asked.take(answer).map(Bytes::from).map_err(refused)
    }

    /// Sends a question on a stream and waits for the answer.
    pub(crate) async fn question(
        &self,
        log: &Log,
        method: Method,
        params: &[u8],
    ) -> Result<Bytes, QuestionError> {
        if !question::may_ask(&self.capabilities, method, params, self.revision) {
            return Err(QuestionError::Undeclared);
        }
        let asked = serde_json::from_slice(params).unwrap_or_default();
        let asked = Question::of(method, &asked).ok_or(QuestionError::Undeclared)?;
        let (sender, receiver) = oneshot::channel();
        let id = self.state(|state| {
            if state.questions.len() >= MAX_QUESTIONS {
                return None;
            }
            state.next_question += 1;
            state.questions.insert(state.next_question, sender);
            Some(state.next_question)
        });
        let id = id.ok_or(QuestionError::Gone)?;
        let _forget = Forget { session: self, id };
        log.push_awaited(question::write_request(id, method, params).into())
            .map_err(|_| QuestionError::Gone)?;
        tokio::select! {
            answer = tokio::time::timeout(self.limits.question_timeout, receiver) => match answer {
                Ok(Ok(answer)) => self.check_answer(&asked, &answer?),
                Ok(Err(_)) => Err(QuestionError::Gone),
                Err(_) => Err(QuestionError::Timeout),
            },
            () = self.over.cancelled() => Err(QuestionError::Gone),
        }
    }
}

/// Forgets a question that nobody waits for any more.
struct Forget<'a> {
    session: &'a Session,
    id: u64,
}

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        self.session.state(|state| drop(state.questions.remove(&self.id)));
    }
}
