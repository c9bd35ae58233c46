//! A modern server's questions to a legacy client: the gateway asks them in sequence and repeats
//! the call with the answers. Modern clients get the questions themselves.

use lockgate_protocol::key::Key;
use lockgate_protocol::method::Method;
use lockgate_text::json;
use lockgate_upstream::{Answer, AnswerKind, ClientChannel, QuestionError};
use serde_json::{Map, Value, json};

use crate::answers::{MAX_QUESTIONS, read_question};
use crate::authorize::Permitted;
use crate::client_channel::CallChannel;
use crate::rescue::RequestError;

/// Limit in bytes on the questions of a round and on an answer; their parsed form takes many times
/// that memory.
const MAX_TREE: usize = 1 << 20;

/// Checks that the server may pause this request, and has given questions or a state.
pub(crate) fn check_questions(permitted: &Permitted, answer: &Answer) -> Result<(), RequestError> {
    if answer.kind == AnswerKind::InputRequired && answer.text.len() > MAX_TREE {
        return Err(permitted.broken("sent questions that are too long"));
    }
    if answer.kind != AnswerKind::InputRequired {
        return Ok(());
    }
    let asks = answer.member(Key::InputRequests).unwrap_or(b"{}") != b"{}";
    if is_pausable(permitted.method()) && (asks || answer.member(Key::RequestState).is_some()) {
        return Ok(());
    }
    Err(permitted.broken("paused a request without a question or a state"))
}

/// Returns whether a request of this method may be answered with questions.
pub(crate) fn is_pausable(method: Method) -> bool {
    matches!(method, Method::ToolsCall | Method::PromptsGet | Method::ResourcesRead)
}

/// Asks the client the server's questions and returns the permit for the next round.
pub(crate) async fn ask_client(
    permitted: &Permitted,
    answer: &Answer,
    talk: Option<&CallChannel>,
) -> Result<Permitted, RequestError> {
    let state = answer.member(Key::RequestState).map(<[u8]>::to_vec);
    let asked = answer.member(Key::InputRequests).unwrap_or(b"{}");
    let questions: Map<String, Value> = json::from_slice(asked)
        .map_err(|_| permitted.broken("sent questions that are not valid"))?;
    if questions.is_empty() {
        // Without questions, the server expects the call to be repeated later.
        tokio::time::sleep(std::time::Duration::from_millis(250)).await;
        return Ok(permitted.next_round(None, state));
    }
    if questions.len() > MAX_QUESTIONS {
        return Err(permitted.broken("sent questions that are not valid"));
    }
    let talk =
        talk.ok_or_else(|| permitted.broken("has a question, but this client cannot be asked"))?;
    let mut answers = Map::new();
    for (key, question) in questions {
        let (method, params) = read_question(&question);
        let answer = match talk.ask(method, params.into()).await {
            Ok(result) if result.len() > MAX_TREE => {
                return Err(permitted.broken("has a question, but the answer is too long"));
            }
            Ok(result) => json::from_slice(&result).unwrap_or(Value::Null),
            Err(QuestionError::Undeclared) => {
                let words = "has a question, but this client did not declare the capability to \
                    answer it";
                return Err(permitted.broken(words));
            }
            // Only an elicitation has a result that means "no answer", and an invalid answer is not
            // a cancellation by the user.
            Err(reason)
                if method != Method::Elicit || matches!(reason, QuestionError::Unusable(_)) =>
            {
                return Err(permitted.broken(&format!("has a question, but {reason}")));
            }
            Err(_) => json!({"action": "cancel"}),
        };
        answers.insert(key, answer);
    }
    let answers = Value::Object(answers).to_string().into_bytes();
    Ok(permitted.next_round(Some(answers), state))
}
