//! The context of a tool or prompt request: asks the client, logs and reports progress in the
//! request's era, so that tools never branch on the era.

use std::{collections::BTreeMap, sync::Arc};

use futures_util::future;
use rmcp::{
    ErrorData, RoleServer,
    model::{
        ClientCapabilities, ClientResult, InputRequest, InputRequiredResult, InputResponses,
        LoggingLevel, LoggingMessageNotificationParam, ProgressNotificationParam, ProtocolVersion,
        ResourceUpdatedNotificationParam, ServerRequest,
    },
    service::{Peer, RequestContext, ServiceError},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use crate::{
    era::Era,
    shared::{Change, Session, Shared},
};

/// The outcome of a question to the client.
pub(crate) enum Asked {
    Answered(Answers),
    /// Modern only: the client must repeat the request with the answers.
    Pending(InputRequiredResult),
}

/// The client's results, by question key.
pub(crate) struct Answers(BTreeMap<String, Value>);

impl Answers {
    pub(crate) fn get(&self, key: &str) -> &Value {
        self.0.get(key).unwrap_or(&Value::Null)
    }

    /// Returns a field of an accepted form as text.
    pub(crate) fn field(&self, key: &str, field: &str) -> String {
        match &self.get(key)["content"][field] {
            Value::String(text) => text.clone(),
            Value::Null => "nobody".to_owned(),
            other => other.to_string(),
        }
    }
}

pub(crate) struct Call {
    pub(crate) context: RequestContext<RoleServer>,
    pub(crate) shared: Arc<Shared>,
    session: Arc<Session>,
    responses: InputResponses,
    state: Option<String>,
    like_examples: bool,
    stateful: bool,
}

impl Call {
    pub(crate) fn new(
        context: RequestContext<RoleServer>,
        shared: Arc<Shared>,
        session: Arc<Session>,
        responses: Option<InputResponses>,
        state: Option<String>,
    ) -> Self {
        let responses = responses.unwrap_or_default();
        Self { context, shared, session, responses, state, like_examples: false, stateful: false }
    }

    pub(crate) fn like_examples(self, like_examples: bool) -> Self {
        Self { like_examples, ..self }
    }

    pub(crate) fn stateful(self, stateful: bool) -> Self {
        Self { stateful, ..self }
    }

    pub(crate) fn is_stateful(&self) -> bool {
        self.stateful
    }

    pub(crate) fn sign_in(&self, is_signed_in: bool) {
        self.session.sign_in(is_signed_in);
    }

    pub(crate) fn is_signed_in(&self) -> bool {
        self.session.is_signed_in()
    }

    pub(crate) fn is_like_examples(&self) -> bool {
        self.like_examples
    }

    /// Returns whether tools ask the same way in both eras, as the SDK's examples do.
    fn asks_in_one_way(&self) -> bool {
        self.like_examples && self.shared.era == Era::Both
    }

    pub(crate) fn is_modern(&self) -> bool {
        self.context
            .protocol_version()
            .is_some_and(|revision| revision >= ProtocolVersion::V_2026_07_28)
    }

    pub(crate) fn capabilities(&self) -> ClientCapabilities {
        self.context.client_capabilities().unwrap_or_default()
    }

    /// Returns whether a task may answer this request. The legacy form of tasks is not supported.
    pub(crate) fn may_become_task(&self) -> bool {
        self.is_modern() && self.capabilities().supports_tasks()
    }

    /// Unseals the returned `requestState`; rejects a state that this server did not seal.
    pub(crate) fn state<T: DeserializeOwned>(&self) -> Result<Option<T>, ErrorData> {
        self.state
            .as_deref()
            .map(|sealed| self.shared.states.open_json(sealed))
            .transpose()
            .map_err(|_| ErrorData::invalid_params("requestState fails its integrity check", None))
    }

    pub(crate) fn seal<T: Serialize>(&self, state: &T) -> Result<String, ErrorData> {
        self.shared
            .states
            .seal_json(state)
            .map_err(|error| ErrorData::internal_error(error.to_string(), None))
    }

    /// Asks the client: with requests in a legacy session, with `input_required` in the modern era.
    /// Missing or malformed answers are requested again.
    pub(crate) async fn ask(
        &self,
        questions: &[(&str, Value)],
        state: Option<String>,
    ) -> Result<Asked, ErrorData> {
        let questions = questions_of(questions)?;
        self.require(questions.values())?;
        if !self.is_modern() && !self.asks_in_one_way() {
            return self.ask_directly(questions).await;
        }
        let answers: BTreeMap<_, _> = questions
            .keys()
            .filter_map(|key| Some((key.clone(), self.responses.get(key)?.clone())))
            .filter(|(_, answer)| answer.is_object())
            .collect();
        if answers.len() == questions.len() {
            return Ok(Asked::Answered(Answers(answers)));
        }
        Ok(Asked::Pending(InputRequiredResult::new(Some(questions), state)))
    }

    /// Asks like `ask`, for tools that predate `input_required`.
    pub(crate) async fn ask_as_before(
        &self,
        questions: &[(&str, Value)],
    ) -> Result<Asked, ErrorData> {
        if self.asks_in_one_way() {
            return self.ask_directly(questions_of(questions)?).await;
        }
        self.ask(questions, None).await
    }

    /// Sends all questions concurrently.
    async fn ask_directly(
        &self,
        questions: BTreeMap<String, InputRequest>,
    ) -> Result<Asked, ErrorData> {
        let asked = questions.into_iter().map(|(key, question)| self.ask_one(key, question));
        let answers = future::try_join_all(asked).await?;
        Ok(Asked::Answered(Answers(answers.into_iter().collect())))
    }

    async fn ask_one(
        &self,
        key: String,
        question: InputRequest,
    ) -> Result<(String, Value), ErrorData> {
        let request = match question {
            InputRequest::CreateMessage(request) => ServerRequest::CreateMessageRequest(request),
            InputRequest::Elicitation(request) => ServerRequest::ElicitRequest(request),
            InputRequest::ListRoots(request) => ServerRequest::ListRootsRequest(request),
            _ => return Err(ErrorData::internal_error("unknown kind of question", None)),
        };
        let answer: ClientResult =
            self.context.peer.send_request(request).await.map_err(|error| {
                ErrorData::internal_error(format!("the client did not answer: {error}"), None)
            })?;
        let answer = serde_json::to_value(answer)
            .map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
        Ok((key, answer))
    }

    /// Rejects questions for which the client has not declared a capability.
    fn require<'a>(
        &self,
        questions: impl Iterator<Item = &'a InputRequest>,
    ) -> Result<(), ErrorData> {
        let declared = self.capabilities();
        for question in questions {
            let (present, name) = match question {
                InputRequest::CreateMessage(_) => (declared.sampling.is_some(), "sampling"),
                InputRequest::Elicitation(_) => (declared.elicitation.is_some(), "elicitation"),
                InputRequest::ListRoots(_) => (declared.roots.is_some(), "roots"),
                _ => (false, "unknown"),
            };
            if !present {
                return Err(self.missing(name));
            }
        }
        Ok(())
    }

    /// Returns the error for an undeclared capability: -32021, or a bad request before 2026-07-28.
    pub(crate) fn missing(&self, capability: &str) -> ErrorData {
        if !self.is_modern() {
            return ErrorData::invalid_request(
                format!("the client does not support {capability}"),
                None,
            );
        }
        let required = serde_json::from_value(json!({ capability: {} })).unwrap_or_default();
        ErrorData::missing_required_client_capability(required)
    }

    /// Notifies only the session of this call of a change.
    pub(crate) async fn tell(&self, change: Change) {
        // A disconnected client is not an error.
        let _ = tell(&self.context.peer, &self.session, change).await;
    }

    /// Reports progress if the client requested it. A disconnected client is not an error.
    pub(crate) async fn progress(&self, progress: f64, total: f64) {
        if let Some(token) = self.context.meta.get_progress_token() {
            let _ = self
                .context
                .peer
                .notify_progress(ProgressNotificationParam::new(token, progress).with_total(total))
                .await;
        }
    }

    /// Logs at `info` if the client's level permits.
    pub(crate) async fn log(&self, text: &str) {
        let wanted = if self.is_modern() {
            self.context.meta.log_level()
        } else {
            Some(self.session.level())
        };
        if wanted.is_some_and(|level| severity(level) <= severity(LoggingLevel::Info)) {
            let message = LoggingMessageNotificationParam::new(LoggingLevel::Info, json!(text))
                .with_logger("fixture");
            let _ = self.context.peer.notify_logging_message(message).await;
        }
    }
}

/// Notifies a legacy session of a change; an updated resource only if the session subscribes to it.
pub(crate) async fn tell(
    peer: &Peer<RoleServer>,
    session: &Session,
    change: Change,
) -> Result<(), ServiceError> {
    match change {
        Change::Tools => peer.notify_tool_list_changed().await,
        Change::Prompts => peer.notify_prompt_list_changed().await,
        Change::Resources => peer.notify_resource_list_changed().await,
        Change::Resource(uri) if session.is_subscribed(&uri) => {
            peer.notify_resource_updated(ResourceUpdatedNotificationParam::new(uri)).await
        }
        Change::Resource(_) => Ok(()),
    }
}

fn questions_of(questions: &[(&str, Value)]) -> Result<BTreeMap<String, InputRequest>, ErrorData> {
    let mut parsed = BTreeMap::new();
    for (key, question) in questions {
        parsed.insert((*key).to_owned(), question_of(question)?);
    }
    Ok(parsed)
}

fn question_of(question: &Value) -> Result<InputRequest, ErrorData> {
    serde_json::from_value(question.clone())
        .map_err(|error| ErrorData::internal_error(format!("bad question: {error}"), None))
}

fn severity(level: LoggingLevel) -> u8 {
    match level {
        LoggingLevel::Debug => 0,
        LoggingLevel::Info => 1,
        _ => 2,
    }
}
