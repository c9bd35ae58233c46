//! Tools that require several answers or several rounds, connected by a `requestState`. In a legacy
//! session they send requests directly and need no state.

use rmcp::{ErrorData, model::Tool};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Answer, plain, text};
use crate::call::{Answers, Asked, Call};

/// The state kept between two rounds of a call.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Progress {
    tool: String,
    round: u8,
    name: Option<String>,
}

pub(super) fn list() -> Vec<Tool> {
    vec![
        plain("test_input_required_result_elicitation", "Asks the user for a name"),
        plain("test_input_required_result_sampling", "Asks the client's model for a capital"),
        plain("test_input_required_result_list_roots", "Asks the client for its roots"),
        plain("test_input_required_result_request_state", "Asks with a state"),
        plain("test_input_required_result_multiple_inputs", "Asks three things at once"),
        plain("test_input_required_result_multi_round", "Asks twice, one after the other"),
        plain("test_input_required_result_tampered_state", "Refuses a state it did not write"),
        plain("test_input_required_result_capabilities", "Asks what the client can answer"),
    ]
}

pub(super) async fn call(call: &Call, name: &str) -> Option<Answer> {
    let answer = match name {
        "test_input_required_result_elicitation" => {
            one(call, "user_name", user_name(), |answers| {
                format!("Hello, {}!", answers.field("user_name", "name"))
            })
            .await
        }
        "test_input_required_result_sampling" => {
            let question = completion("What is the capital of France?", 100);
            one(call, "capital_question", question, |answers| {
                answers.get("capital_question")["content"].to_string()
            })
            .await
        }
        "test_input_required_result_list_roots" => {
            one(call, "client_roots", roots(), |answers| {
                format!("Roots: {}", answers.get("client_roots")["roots"])
            })
            .await
        }
        "test_input_required_result_request_state"
        | "test_input_required_result_tampered_state" => confirmed(call, name).await,
        "test_input_required_result_multiple_inputs" => several(call, name).await,
        "test_input_required_result_multi_round" => two_rounds(call, name).await,
        "test_input_required_result_capabilities" => possible(call).await,
        _ => return None,
    };
    Some(answer)
}

async fn one(
    call: &Call,
    key: &str,
    question: Value,
    words: impl FnOnce(&Answers) -> String,
) -> Answer {
    match call.ask(&[(key, question)], None).await? {
        Asked::Pending(pending) => Ok(pending.into()),
        Asked::Answered(answers) => text(words(&answers)),
    }
}

async fn confirmed(call: &Call, tool: &str) -> Answer {
    let before = remembered(call, tool)?;
    let question = form("Please confirm", "ok", "boolean");
    let state = remember(call, tool, 1, None)?;
    match call.ask(&[("confirm", question)], Some(state)).await? {
        Asked::Pending(pending) => Ok(pending.into()),
        Asked::Answered(_) if call.is_modern() && before.is_none() => {
            Err(ErrorData::invalid_params("the answers came without their requestState", None))
        }
        Asked::Answered(_) => text("state-ok"),
    }
}

async fn several(call: &Call, tool: &str) -> Answer {
    remembered(call, tool)?;
    let questions = [
        ("user_name", user_name()),
        ("greeting", completion("Generate a greeting", 50)),
        ("client_roots", roots()),
    ];
    let state = remember(call, tool, 1, None)?;
    match call.ask(&questions, Some(state)).await? {
        Asked::Pending(pending) => Ok(pending.into()),
        Asked::Answered(answers) => text(format!(
            "Hello, {}! {} {}",
            answers.field("user_name", "name"),
            answers.get("greeting")["content"],
            answers.get("client_roots")["roots"]
        )),
    }
}

async fn two_rounds(call: &Call, tool: &str) -> Answer {
    let name = match remembered(call, tool)?.and_then(|before| before.name) {
        Some(name) => name,
        None => {
            let question = form("Step 1: What is your name?", "name", "string");
            let state = remember(call, tool, 1, None)?;
            match call.ask(&[("step1", question)], Some(state)).await? {
                Asked::Pending(pending) => return Ok(pending.into()),
                Asked::Answered(answers) => answers.field("step1", "name"),
            }
        }
    };
    let question = form("Step 2: What is your favorite color?", "color", "string");
    let state = remember(call, tool, 2, Some(&name))?;
    match call.ask(&[("step2", question)], Some(state)).await? {
        Asked::Pending(pending) => Ok(pending.into()),
        Asked::Answered(answers) => {
            text(format!("{name} likes {}", answers.field("step2", "color")))
        }
    }
}

async fn possible(call: &Call) -> Answer {
    let declared = call.capabilities();
    let mut questions = Vec::new();
    if declared.elicitation.is_some() {
        questions.push(("user_name", user_name()));
    }
    if declared.sampling.is_some() {
        questions.push(("greeting", completion("Generate a greeting", 50)));
    }
    if declared.roots.is_some() {
        questions.push(("client_roots", roots()));
    }
    if questions.is_empty() {
        return text("This client can answer nothing");
    }
    let count = questions.len();
    match call.ask(&questions, None).await? {
        Asked::Pending(pending) => Ok(pending.into()),
        Asked::Answered(_) => text(format!("The client answered {count} questions")),
    }
}

/// Returns the progress of earlier rounds; rejects the state of another tool like a forged state.
fn remembered(call: &Call, tool: &str) -> Result<Option<Progress>, ErrorData> {
    match call.state::<Progress>()? {
        Some(before) if before.tool != tool => {
            Err(ErrorData::invalid_params("requestState belongs to another tool", None))
        }
        before => Ok(before),
    }
}

fn remember(call: &Call, tool: &str, round: u8, name: Option<&str>) -> Result<String, ErrorData> {
    call.seal(&Progress { tool: tool.to_owned(), round, name: name.map(str::to_owned) })
}

fn form(message: &str, field: &str, kind: &str) -> Value {
    json!({"method": "elicitation/create", "params": {
        "mode": "form",
        "message": message,
        "requestedSchema": {
            "type": "object",
            "properties": {field: {"type": kind}},
            "required": [field]
        }
    }})
}

pub(super) fn user_name() -> Value {
    form("What is your name?", "name", "string")
}

pub(super) fn confirmation(message: &str) -> Value {
    form(message, "confirm", "boolean")
}

fn completion(prompt: &str, max_tokens: u32) -> Value {
    json!({"method": "sampling/createMessage", "params": {
        "messages": [{"role": "user", "content": {"type": "text", "text": prompt}}],
        "maxTokens": max_tokens
    }})
}

fn roots() -> Value {
    json!({"method": "roots/list", "params": {}})
}
