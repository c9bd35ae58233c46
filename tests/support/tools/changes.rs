//! Tools that change the fixture's own lists and resources, to test notifications.

use std::sync::atomic::Ordering;

use rmcp::model::{JsonObject, Tool};
use serde_json::{Value, json};

use super::{Answer, plain, text, with_schema};
use crate::{
    call::Call,
    resources::WATCHED,
    shared::{Change, Shared},
};

const EXTRA: &str = "test_extra_tool";

pub(super) fn list(shared: &Shared) -> Vec<Tool> {
    let mut tools = vec![
        plain("test_trigger_tool_change", "Adds or removes a tool"),
        plain("test_trigger_prompt_change", "Adds or removes a prompt"),
        plain("test_trigger_resource_change", "Adds or removes a resource"),
        with_schema(
            "test_trigger_resource_update",
            "Says that a resource was updated",
            json!({"type": "object", "properties": {"uri": {"type": "string"}}}),
        ),
    ];
    if shared.extra_tool.load(Ordering::SeqCst) {
        tools.push(plain(EXTRA, "A tool that comes and goes"));
    }
    tools
}

pub(super) async fn call(call: &Call, name: &str, arguments: &JsonObject) -> Option<Answer> {
    if call.is_like_examples() {
        return announce(call, name, arguments).await;
    }
    let shared = &call.shared;
    let present = match name {
        "test_trigger_tool_change" => shared.toggle(&shared.extra_tool, Change::Tools),
        "test_trigger_prompt_change" => shared.toggle(&shared.extra_prompt, Change::Prompts),
        "test_trigger_resource_change" => shared.toggle(&shared.extra_resource, Change::Resources),
        "test_trigger_resource_update" => {
            let uri = arguments.get("uri").and_then(Value::as_str).unwrap_or(WATCHED);
            shared.announce(Change::Resource(uri.to_owned()));
            return Some(text(format!("Announced {uri}")));
        }
        EXTRA if shared.extra_tool.load(Ordering::SeqCst) => return Some(text("Here today.")),
        _ => return None,
    };
    Some(text(if present { "Added" } else { "Removed" }))
}

/// Announces a change without making it, as the SDK's examples do: they build lists per session.
async fn announce(call: &Call, name: &str, arguments: &JsonObject) -> Option<Answer> {
    let change = match name {
        "test_trigger_tool_change" => Change::Tools,
        "test_trigger_prompt_change" => Change::Prompts,
        "test_trigger_resource_change" => Change::Resources,
        "test_trigger_resource_update" => {
            let uri = arguments.get("uri").and_then(Value::as_str).unwrap_or(WATCHED);
            Change::Resource(uri.to_owned())
        }
        _ => return None,
    };
    if call.is_modern() {
        call.shared.announce(change);
    } else {
        call.tell(change).await;
    }
    Some(text("Announced"))
}
