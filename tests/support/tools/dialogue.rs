//! Tools that request one completion from the client or one form from the user.

use rmcp::model::{JsonObject, Tool};
use serde_json::{Value, json};

use super::{Answer, plain, required, text, with_schema};
use crate::call::{Asked, Call};

pub(super) fn list() -> Vec<Tool> {
    let takes = |key: &str, description: &str| {
        json!({
            "type": "object",
            "properties": {key: {"type": "string", "description": description}},
            "required": [key]
        })
    };
    vec![
        with_schema(
            "test_sampling",
            "Asks the client's model",
            takes("prompt", "What to send to the model"),
        ),
        with_schema(
            "test_elicitation",
            "Asks the user for a name and an address",
            takes("message", "What to show to the user"),
        ),
        plain("test_elicitation_sep1034_defaults", "Asks with a default for every primitive type"),
        plain("test_elicitation_sep1330_enums", "Asks with every kind of enumeration"),
        plain("test_elicitation_url", "Sends the user elsewhere"),
        plain("test_streaming_elicitation", "Asks the user on a response that may stream"),
        plain("test_missing_capability", "Needs a client that can sample"),
    ]
}

pub(super) async fn call(call: &Call, name: &str, arguments: &JsonObject) -> Option<Answer> {
    let form = match name {
        "test_sampling" => return Some(sample(call, arguments).await),
        "test_elicitation" => required(arguments, "message").map(contact),
        "test_elicitation_sep1034_defaults" => Ok(defaults()),
        "test_elicitation_sep1330_enums" => Ok(enumerations()),
        "test_elicitation_url" => Ok(elsewhere()),
        "test_streaming_elicitation" => {
            let asked = call.ask(&[("form", contact("Who are you?"))], None).await;
            return Some(asked.and_then(said_of));
        }
        "test_missing_capability" => {
            return Some(if call.capabilities().sampling.is_some() {
                text("The client can sample")
            } else {
                Err(call.missing("sampling"))
            });
        }
        _ => return None,
    };
    Some(match form {
        Ok(form) => elicit(call, form).await,
        Err(error) => Err(error),
    })
}

async fn sample(call: &Call, arguments: &JsonObject) -> Answer {
    let prompt = required(arguments, "prompt")?;
    let question = json!({"method": "sampling/createMessage", "params": {
        "messages": [{"role": "user", "content": {"type": "text", "text": prompt}}],
        "maxTokens": 100
    }});
    match call.ask_as_before(&[("sample", question)]).await? {
        Asked::Pending(pending) => Ok(pending.into()),
        Asked::Answered(answers) => {
            let content = &answers.get("sample")["content"];
            let said = match content["text"].as_str() {
                Some(said) => said.to_owned(),
                None => content.to_string(),
            };
            text(format!("LLM response: {said}"))
        }
    }
}

async fn elicit(call: &Call, form: Value) -> Answer {
    said_of(call.ask_as_before(&[("form", form)]).await?)
}

fn said_of(asked: Asked) -> Answer {
    match asked {
        Asked::Pending(pending) => Ok(pending.into()),
        Asked::Answered(answers) => {
            let answer = answers.get("form");
            let action = answer["action"].as_str().unwrap_or("cancel");
            let content = &answer["content"];
            text(format!("Elicitation completed: action={action}, content={content}"))
        }
    }
}

fn form(message: &str, properties: &Value, required: &[&str]) -> Value {
    json!({"method": "elicitation/create", "params": {
        "mode": "form",
        "message": message,
        "requestedSchema": {"type": "object", "properties": properties, "required": required}
    }})
}

fn contact(message: &str) -> Value {
    form(
        message,
        &json!({
            "username": {"type": "string", "description": "User's response"},
            "email": {"type": "string", "description": "User's email address"}
        }),
        &["username", "email"],
    )
}

fn elsewhere() -> Value {
    json!({"method": "elicitation/create", "params": {
        "mode": "url",
        "message": "Please agree there",
        "url": "https://example.com/consent",
        "elicitationId": "consent-1"
    }})
}

fn defaults() -> Value {
    form(
        "Please review and update the form fields with defaults",
        &json!({
            "name": {"type": "string", "description": "User name", "default": "John Doe"},
            "age": {"type": "integer", "description": "User age", "default": 30},
            "score": {"type": "number", "description": "User score", "default": 95.5},
            "status": {
                "type": "string",
                "description": "User status",
                "enum": ["active", "inactive", "pending"],
                "default": "active"
            },
            "verified": {"type": "boolean", "description": "Verification", "default": true}
        }),
        &[],
    )
}

fn enumerations() -> Value {
    let options = json!(["option1", "option2", "option3"]);
    let titled = |word: &str| {
        json!([
            {"const": "value1", "title": format!("First {word}")},
            {"const": "value2", "title": format!("Second {word}")},
            {"const": "value3", "title": format!("Third {word}")}
        ])
    };
    form(
        "Please select options from the enum fields",
        &json!({
            "untitledSingle": {"type": "string", "enum": options},
            "titledSingle": {"type": "string", "oneOf": titled("Option")},
            "legacyEnum": {
                "type": "string",
                "enum": ["opt1", "opt2", "opt3"],
                "enumNames": ["Option One", "Option Two", "Option Three"]
            },
            "untitledMulti": {"type": "array", "items": {"type": "string", "enum": options}},
            "titledMulti": {"type": "array", "items": {"anyOf": titled("Choice")}}
        }),
        &[],
    )
}
