//! Questions of a modern server to a legacy client: the gateway asks them one after the other and
//! calls again with the answers. Modern clients get the questions themselves.

use lockgate_protocol::code;
use lockgate_protocol::method::Method;
use lockgate_upstream::{Answer, AnswerKind, Conversation, QuestionError};
use serde_json::{Map, Value, json};

use crate::authorize::Permitted;
use crate::client_channel::CallChannel;
use crate::rescue::RequestError;

/// Most questions of one round.
const MAX_QUESTIONS: usize = 32;

/// Longest questions, and longest answer to one: they are read into trees, which take many times
/// their bytes.
const MAX_TREE: usize = 1 << 20;

/// A server may pause only some requests, and has to say what for.
pub(crate) fn check_questions(permitted: &Permitted, answer: &Answer) -> Result<(), RequestError> {
    if answer.kind == AnswerKind::InputRequired && answer.text.len() > MAX_TREE {
        let words =
            format!("server {} asked questions that are too long", permitted.server().slug());
        return Err(RequestError::new(code::INTERNAL, words));
    }
    let pausable = matches!(
        permitted.method(),
        Method::ToolsCall | Method::PromptsGet | Method::ResourcesRead
    );
    if answer.kind != AnswerKind::InputRequired {
        return Ok(());
    }
    let asks = answer.member("inputRequests").is_some_and(|asked| asked != b"{}");
    if pausable && (asks || answer.member("requestState").is_some()) {
        return Ok(());
    }
    let words =
        format!("server {} paused a request without saying what for", permitted.server().slug());
    Err(RequestError::new(code::INTERNAL, words))
}

/// Asks what the server wants to know; gives leave for the next round.
pub(crate) async fn ask_client(
    permitted: &Permitted,
    answer: &Answer,
    talk: Option<&CallChannel>,
) -> Result<Permitted, RequestError> {
    let slug = permitted.server().slug();
    let problem = |words: &str| RequestError::new(code::INTERNAL, format!("server {slug} {words}"));
    let state = answer.member("requestState").map(<[u8]>::to_vec);
    let questions =
        answer.member("inputRequests").map(serde_json::from_slice::<Map<String, Value>>);
    let questions =
        match questions.filter(|asked| asked.as_ref().map_or(true, |asked| !asked.is_empty())) {
            None => {
                // Nothing to ask: the server wants to be called again later.
                tokio::time::sleep(std::time::Duration::from_millis(250)).await;
                return Ok(permitted.next_round(None, state));
            }
            Some(Ok(questions)) if questions.len() <= MAX_QUESTIONS => questions,
            Some(_) => return Err(problem("asked questions that are not understood")),
        };
    let talk = talk.ok_or_else(|| problem("has a question, and this client cannot be asked"))?;
    let mut answers = Map::new();
    for (key, question) in questions {
        let method =
            Method::parse(question.get("method").and_then(Value::as_str).unwrap_or_default());
        let params = question.get("params").cloned().unwrap_or_else(|| json!({}));
        let answer = match talk.ask(method, params.to_string().into()).await {
            Ok(result) if result.len() > MAX_TREE => {
                return Err(problem("got an answer to its question that is too long"));
            }
            Ok(result) => serde_json::from_slice(&result).unwrap_or_default(),
            Err(QuestionError::Undeclared) => {
                return Err(problem(
                    "has a question that this client did not declare that it can answer",
                ));
            }
            // Only an elicitation has a result that means no answer.
            Err(_) if method == Method::Elicit => json!({"action": "cancel"}),
            Err(reason) => {
                return Err(problem(&format!("has a question, but {reason}")));
            }
        };
        answers.insert(key, answer);
    }
    let answers = Value::Object(answers).to_string().into_bytes();
    Ok(permitted.next_round(Some(answers), state))
}
