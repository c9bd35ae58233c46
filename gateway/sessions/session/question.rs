//! Questions to a session's client: a request on one of its streams, answered by POST. A form is
//! sent again once if its answer is unusable. A question has a timeout, and ends with its call and
//! its session. A client is sent a cancellation for questions that end without an answer. Below:
//! the session as seen by its requests and by servers, which ask and log.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use lockgate_protocol::jsonrpc::{Outcome, Request, Response};
use lockgate_protocol::method::Method;
use lockgate_protocol::question::{adapt_form, may_ask, write_request};
use lockgate_protocol::revision::Era;
use lockgate_protocol::write::{self, Object};
use lockgate_protocol::{outbound, question, scan};
use lockgate_proxy::Gateway;
use lockgate_proxy::answers::Question;
use lockgate_proxy::catalog::View;
use lockgate_proxy::client_channel::write_log_message;
use lockgate_proxy::context::LegacySession;
use lockgate_proxy::own_lists::{OwnClient, OwnClients};
use lockgate_proxy::rights::CallerRights;
use lockgate_proxy::snapshot::Snapshot;
use lockgate_text::{hex, json};
use lockgate_upstream::{
    BoxFuture, Caller, ClientSession, IdentityAssertion, QuestionError, ServerId,
};
use scopeguard::guard;
use serde_json::Value;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::{Asked, Elicitation, Log, Session, SessionState, SessionTask};

/// Pending questions of a session, and remembered cancelled questions.
const MAX_QUESTIONS: usize = 64;
/// Elicitations of a session that await completion; the oldest are dropped.
const MAX_ELICITATIONS: usize = 64;

impl Session {
    /// Handles a client's answer to a question. An unusable answer ends the question.
    ///
    /// # Errors
    /// A description of the fault for the client.
    pub(crate) fn answer(&self, response: &Response) -> Result<(), String> {
        let id = self.question_number(response).unwrap_or(0);
        let asked = self.state(|state| state.questions.open.remove(&id));
        if asked.is_none() && self.state(|state| state.questions.cancelled.contains(&id)) {
            return Ok(());
        }
        let Some(Asked { question, waiting, is_repeatable, .. }) = asked else {
            return Err("no request with this id is waiting for an answer: it was never made, is \
                already answered, or has ended"
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
                let words = format!("the answer does not fit the request: {words}");
                let _ = waiting.send(Err(QuestionError::Unusable(words.clone())));
                if is_repeatable { Ok(()) } else { Err(words) }
            }
        }
    }

    /// Returns the id of a question as JSON text. With several gateways, the id names this gateway.
    fn question_id(&self, number: u64) -> Vec<u8> {
        let holder = self.holder.get().map(|holder| write::quoted(&format!("{number}{holder}")));
        holder.unwrap_or_else(|| number.to_string().into_bytes())
    }

    /// Returns the number of the question that a response answers.
    fn question_number(&self, response: &Response) -> Option<u64> {
        let Some(holder) = self.holder.get() else { return response.number() };
        let id = scan::as_str(response.id()?)?;
        id.strip_suffix(&**holder)?.parse().ok()
    }

    fn check_answer(&self, asked: &Question, answer: &[u8]) -> Result<Bytes, String> {
        let most = self.limits.answer_bytes;
        if answer.len() > most {
            return Err(format!("more than {most} bytes (limits.answer_bytes)"));
        }
        Ok(asked.take(answer)?.into())
    }

    /// Sends a question on a stream and waits for the answer. Questions of the gateway itself have
    /// their own timeout, and are not repeated.
    pub(crate) async fn question(
        &self,
        log: &Log,
        slug: &str,
        method: Method,
        params: &[u8],
        own_limit: Option<Duration>,
    ) -> Result<Bytes, QuestionError> {
        if !may_ask(&self.capabilities, method, params, self.revision) {
            return Err(QuestionError::Undeclared);
        }
        let asked = json::from_slice(params).unwrap_or(Value::Null);
        let question = Question::of(method, &asked).ok_or(QuestionError::Undeclared)?;
        let marked = self.mark_elicitation(slug, method, params);
        let params = marked.as_deref().unwrap_or(params);
        let adapted = adapt_form(method, params, self.revision);
        let params = adapted.as_deref().unwrap_or(params);
        let limit = own_limit.unwrap_or(self.limits.question_timeout);
        let deadline = Instant::now() + limit;
        let is_repeatable = own_limit.is_none() && matches!(question, Question::Form(_));
        let asked = (question.clone(), is_repeatable);
        match self.send_question(log, method, params, asked, deadline).await {
            Err(QuestionError::Unusable(words)) if is_repeatable => {
                let params = explain(params, &words);
                self.send_question(log, method, &params, (question, false), deadline).await
            }
            answer => answer,
        }
    }

    async fn send_question(
        &self,
        log: &Log,
        method: Method,
        params: &[u8],
        (question, is_repeatable): (Question, bool),
        deadline: Instant,
    ) -> Result<Bytes, QuestionError> {
        let (waiting, receiver) = oneshot::channel();
        let asked = Asked { question, stream: log.number, is_repeatable, waiting };
        let id = self.state(|SessionState { questions, .. }| {
            if questions.open.len() >= MAX_QUESTIONS {
                return None;
            }
            questions.last += 1;
            questions.open.insert(questions.last, asked);
            Some(questions.last)
        });
        let Some(id) = id else {
            return Err(QuestionError::Unusable("the client has too many open questions".into()));
        };
        let request = write_request(&self.question_id(id), method, params);
        if log.push_awaited(request.into()).is_err() {
            self.state(|state| state.questions.open.remove(&id));
            return Err(QuestionError::Unusable("not enough memory to ask the client".into()));
        }
        // Cancelled on drop, unless it was answered.
        let _open = guard(id, |id| self.cancel_question(log, id));
        tokio::select! {
            answer = tokio::time::timeout_at(deadline, receiver) => match answer {
                Ok(Ok(answer)) => answer,
                Ok(Err(_)) => Err(QuestionError::Unusable("the call that asked has ended".into())),
                Err(_) => Err(QuestionError::Timeout),
            },
            () = self.over.cancelled() => Err(QuestionError::Gone),
        }
    }

    /// Cancels the pending questions on the stream of a call that has ended.
    pub(crate) fn cancel_questions(&self, log: &Log) {
        let mut open: Vec<u64> = self.state(|state| {
            let open = state.questions.open.iter();
            let on_stream = open.filter(|(_, asked)| asked.stream == log.number);
            on_stream.map(|(id, _)| *id).collect()
        });
        open.sort_unstable();
        for id in open {
            self.cancel_question(log, id);
        }
    }

    /// Cancels a question at the client, unless it has been answered.
    fn cancel_question(&self, log: &Log, id: u64) {
        let is_open = self.state(|SessionState { questions, .. }| {
            let is_open = questions.open.remove(&id).is_some();
            if is_open {
                questions.cancelled.truncate(MAX_QUESTIONS - 1);
                questions.cancelled.push_front(id);
            }
            is_open
        });
        if is_open {
            let note = outbound::cancelled(&self.question_id(id), "the answer is no longer needed");
            // If this fails for lack of memory, the client's answer is merely late.
            let _ = log.push_awaited(note.into());
        }
    }

    /// Replaces the id of a URL elicitation by an id of ours. Returns `None` if nothing changes.
    fn mark_elicitation(&self, slug: &str, method: Method, params: &[u8]) -> Option<Vec<u8>> {
        if method != Method::Elicit {
            return None;
        }
        let Ok(Value::Object(mut all)) = json::from_slice(params) else { return None };
        if !matches!(all.get("mode"), Some(mode) if mode == "url") {
            return None;
        }
        let shown: Box<str> = hex::random::<16>()?.into();
        let own = all.insert("elicitationId".into(), (&*shown).into());
        if let Some(Value::String(own)) = own {
            let elicitation = Elicitation { shown, slug: slug.to_owned(), own };
            self.state(|SessionState { elicitations, .. }| {
                elicitations.truncate(MAX_ELICITATIONS - 1);
                elicitations.push_front(elicitation);
            });
        }
        Some(Value::Object(all).to_string().into_bytes())
    }

    /// Notifies the client, once, that an elicitation of a server is complete.
    pub(super) fn tell_elicitation_complete(&self, slug: &str, own: &str) {
        let completed = self.state(|SessionState { elicitations, .. }| {
            let at = elicitations.iter().position(|open| open.slug == slug && open.own == own)?;
            elicitations.remove(at)
        });
        let Some(Elicitation { shown, .. }) = completed else { return };
        let mut params = Vec::new();
        let mut object = Object::open(&mut params);
        object.string("elicitationId", &shown);
        object.close();
        let note = write::notification(Method::ElicitationComplete.as_str(), &params);
        self.outside().push(note.into());
    }

    /// Returns the client's description for servers, with its identity assertion.
    pub(crate) fn caller(&self, assertion: Option<Arc<dyn IdentityAssertion>>) -> Caller {
        Caller {
            id: self.principal.read().caller_id(),
            assertion,
            capabilities: self.capabilities.clone(),
            interactive: self.interactive,
            log_level: self.level(),
            session: self.this.upgrade().map(|s| s as Arc<dyn ClientSession>),
            era: Era::Legacy,
        }
    }

    /// Returns the view of the client under these rules.
    pub(crate) fn view(
        &self,
        gateway: &Gateway,
        snapshot: &Snapshot,
        rights: &CallerRights,
    ) -> Option<Arc<View>> {
        gateway.view(&self.own_clients(), snapshot, rights)
    }
}

/// Adds the reason for the repetition to a form.
fn explain(params: &[u8], words: &str) -> Vec<u8> {
    let mut params = json::from_slice(params).unwrap_or(Value::Null);
    if let Some(Value::String(message)) = params.get_mut("message") {
        message.push_str(&format!("\n\nPlease answer again: {words}."));
    }
    params.to_string().into_bytes()
}

impl LegacySession for Session {
    fn own_clients(&self) -> OwnClients {
        if self.own_servers.is_any() {
            vec![OwnClient { servers: Arc::clone(&self.own_servers), is_first: true }]
        } else {
            OwnClients::new()
        }
    }

    fn defers_loading(&self) -> bool {
        self.defers_loading
    }

    fn remember_task(&self, token: &str, server: ServerId, own: &str) {
        self.add_task(SessionTask::new(token.to_owned(), server, own));
    }
}

impl ClientSession for Session {
    fn key(&self) -> u64 {
        self.own_servers.key()
    }

    fn tells_roots_changes(&self) -> bool {
        self.roots_changes
    }

    fn note_own_lists(&self, server: &ServerId) {
        self.own_servers.note(server);
    }

    fn complete_elicitation(&self, server: &ServerId, id: &str) {
        self.tell_elicitation_complete(&server.slug, id);
    }

    fn log(&self, server: &ServerId, note: &Request) {
        let log = self.outside();
        if let Some(text) = write_log_message(&server.slug, note, self.wanted_level(), &log.pace) {
            log.push(text.into());
        }
    }

    fn ask<'a>(
        &'a self,
        server: &'a ServerId,
        method: Method,
        params: Bytes,
    ) -> BoxFuture<'a, Result<Bytes, QuestionError>> {
        Box::pin(async move {
            let slug = &*server.slug;
            let label = if self.endpoint.is_namespaced() { Some(slug) } else { None };
            let params = question::label(label, method, &params);
            self.question(&self.outside(), slug, method, &params, None).await
        })
    }
}
