//! What a session's client is asked: a request of ours on one of its streams, and the answer that
//! comes by POST. A question waits for a bounded time, and ends with its session.

use std::time::Duration;

use bytes::Bytes;
use lockgate_protocol::code;
use lockgate_protocol::jsonrpc::{Outcome, Response};
use lockgate_protocol::method::Method;
use lockgate_protocol::question::{adapt_form, may_ask, write_request};
use lockgate_protocol::write::{self, Object};
use lockgate_upstream::QuestionError;
use serde_json::Value;
use tokio::sync::oneshot;

use super::asked::Asked;
use super::elicitation::new_id;
use super::{Log, Session};
use crate::answers::Question;

/// Questions of one session that wait for answers.
const MAX_QUESTIONS: usize = 64;

impl Session {
    /// The client answers a question. What is no answer to it ends the question.
    ///
    /// # Errors
    /// What is wrong with it, for the client.
    pub(crate) fn answer(&self, response: &Response) -> Result<(), String> {
        let asked = match response.number() {
            Some(id) => self.state(|state| state.questions.remove(&id)),
            None => None,
        };
        let Some(Asked { question, waiting }) = asked else {
            return Err("no request with this id waits for an answer: it was never made, is \
                answered, or has ended"
                .into());
        };
        let answer = match &response.outcome {
            Outcome::Result(span, _) => {
                self.check_answer(&question, &response.text.slice(span.range()))
            }
            Outcome::Error(error) => {
                let message = error.message(&response.text).into_owned();
                let _ = waiting.send(Err(QuestionError::Refused { code: error.code, message }));
                return Ok(());
            }
        };
        match answer {
            Ok(answer) => {
                let _ = waiting.send(Ok(answer));
                Ok(())
            }
            Err(words) => {
                let message = "the client's answer does not fit".into();
                let refused = QuestionError::Refused { code: code::INVALID_PARAMS, message };
                let _ = waiting.send(Err(refused));
                Err(format!("the answer does not fit the request: {words}"))
            }
        }
    }

    /// How long a client may take for an answer to a server.
    pub(crate) fn question_timeout(&self) -> Duration {
        self.limits.question_timeout
    }

    /// An answer as far as it is one to what was asked.
    fn check_answer(&self, asked: &Question, answer: &[u8]) -> Result<Bytes, String> {
        let most = self.limits.answer_bytes;
        if answer.len() > most {
            return Err(format!("more than {most} bytes (limits.answer_bytes)"));
        }
        Ok(asked.take(answer)?.into())
    }

    /// Sends a question on a stream and waits so long for the answer.
    pub(crate) async fn question(
        &self,
        log: &Log,
        slug: &str,
        method: Method,
        params: &[u8],
        limit: Duration,
    ) -> Result<Bytes, QuestionError> {
        if !may_ask(&self.capabilities, method, params, self.revision) {
            return Err(QuestionError::Undeclared);
        }
        let asked = serde_json::from_slice(params).unwrap_or(Value::Null);
        let Some(question) = Question::of(method, &asked) else {
            return Err(QuestionError::Undeclared);
        };
        let marked = self.mark_elicitation(slug, method, params);
        let params = marked.as_deref().unwrap_or(params);
        let adapted = adapt_form(method, params, self.revision);
        let params = adapted.as_deref().unwrap_or(params);
        let (sender, receiver) = oneshot::channel();
        let id = self.state(|state| {
            if state.questions.len() >= MAX_QUESTIONS {
                return None;
            }
            state.next_question += 1;
            state.questions.insert(state.next_question, Asked { question, waiting: sender });
            Some(state.next_question)
        });
        let Some(id) = id else { return Err(QuestionError::Gone) };
        let _forget = Forget { session: self, id };
        if log.push_awaited(write_request(id, method, params).into()).is_err() {
            return Err(QuestionError::Gone);
        }
        tokio::select! {
            answer = tokio::time::timeout(limit, receiver) => match answer {
                Ok(Ok(answer)) => answer,
                Ok(Err(_)) => Err(QuestionError::Gone),
                Err(_) => Err(QuestionError::Timeout),
            },
            () = self.over.cancelled() => Err(QuestionError::Gone),
        }
    }
}

impl Session {
    /// An elicitation as this session's client gets it: one that leads elsewhere has an id of ours.
    /// `None` where nothing changes.
    fn mark_elicitation(&self, slug: &str, method: Method, params: &[u8]) -> Option<Vec<u8>> {
        if method != Method::Elicit {
            return None;
        }
        let Ok(Value::Object(mut all)) = serde_json::from_slice(params) else { return None };
        if !matches!(all.get("mode"), Some(mode) if mode == "url") {
            return None;
        }
        let shown = new_id()?;
        let own = all.insert("elicitationId".into(), shown.as_str().into());
        if let Some(Value::String(own)) = own {
            self.state(|state| state.elicitations.add(shown, slug, own));
        }
        Some(Value::Object(all).to_string().into_bytes())
    }

    /// Tells the client that an elicitation of a server is complete, once.
    pub(super) fn tell_elicitation_complete(&self, slug: &str, own: &str) {
        let Some(shown) = self.state(|state| state.elicitations.complete(slug, own)) else {
            return;
        };
        let Some(log) = self.log(0) else { return };
        let mut params = Vec::new();
        let mut object = Object::open(&mut params);
        object.string("elicitationId", &shown);
        object.close();
        log.push(write::notification(Method::ElicitationComplete.as_str(), &params).into());
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
