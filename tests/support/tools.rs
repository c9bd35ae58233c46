//! The fixture's tools. Each topic lists its tools and handles their calls; this module tries the
//! topics in order.

mod answers;
mod changes;
mod dialogue;
mod jobs;
mod rounds;
mod schemas;
pub(crate) mod session;
mod streams;

use std::{borrow::Cow, sync::Arc};

use rmcp::{
    ErrorData,
    model::{CallToolResponse, CallToolResult, ClientCapabilities, ContentBlock, JsonObject, Tool},
};
use serde_json::{Value, json};

use crate::{call::Call, shared::Shared};

type Answer = Result<CallToolResponse, ErrorData>;

pub(crate) fn list(shared: &Shared) -> Vec<Tool> {
    [
        answers::list(),
        streams::list(),
        dialogue::list(),
        rounds::list(),
        schemas::list(),
        jobs::list(),
        changes::list(shared),
    ]
    .concat()
}

/// Returns whether the tool's questions are within the client's declared capabilities.
pub(crate) fn can_be_offered(name: &str, declared: &ClientCapabilities) -> bool {
    match name {
        "test_sampling" | "test_missing_capability" => declared.sampling.is_some(),
        _ if dialogue::list().iter().any(|tool| tool.name == name) => {
            declared.elicitation.is_some()
        }
        _ => true,
    }
}

pub(crate) async fn call(call: &Call, name: &str, arguments: &JsonObject) -> Answer {
    if let Some(answer) = answers::call(name) {
        return answer;
    }
    if let Some(answer) = streams::call(call, name).await {
        return answer;
    }
    if let Some(answer) = dialogue::call(call, name, arguments).await {
        return answer;
    }
    if let Some(answer) = rounds::call(call, name).await {
        return answer;
    }
    if let Some(answer) = schemas::call(name, arguments) {
        return answer;
    }
    if let Some(answer) = jobs::call(call, name, arguments).await {
        return answer;
    }
    if call.is_stateful()
        && let Some(answer) = session::call(call, name).await
    {
        return answer;
    }
    changes::call(call, name, arguments)
        .await
        .unwrap_or_else(|| Err(ErrorData::invalid_params(format!("unknown tool: {name}"), None)))
}

/// Returns a tool without arguments.
fn plain(name: &'static str, description: &'static str) -> Tool {
    with_schema(name, description, json!({"type": "object", "properties": {}}))
}

fn with_schema(name: &'static str, description: &'static str, schema: Value) -> Tool {
    let schema = match schema {
        Value::Object(schema) => schema,
        _ => JsonObject::new(),
    };
    Tool::new(Cow::Borrowed(name), Cow::Borrowed(description), Arc::new(schema))
}

fn text(text: impl Into<String>) -> Answer {
    Ok(CallToolResult::success(vec![ContentBlock::text(text)]).into())
}

fn required<'a>(arguments: &'a JsonObject, key: &str) -> Result<&'a str, ErrorData> {
    arguments
        .get(key)
        .and_then(Value::as_str)
        .ok_or_else(|| ErrorData::invalid_params(format!("missing argument: {key}"), None))
}
