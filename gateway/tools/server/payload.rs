//! Payloads of calls: parameters that are objects, results within their size limit, and items of
//! lists.

use std::time::Duration;

use lockgate_protocol::code;
use lockgate_protocol::key::Key;
use lockgate_upstream::{Call, Item, ListKind};
use serde_json::{Map, Value, json};

use crate::tool::{Effect, Output, STRICT, ToolError, ToolSpec};

/// An invalid request: a JSON-RPC code, and a sentence.
pub(super) struct PayloadError {
    pub(super) code: i64,
    pub(super) words: String,
}

/// Most errors concern the parameters.
impl From<String> for PayloadError {
    fn from(words: String) -> Self {
        Self { code: code::INVALID_PARAMS, words }
    }
}

pub(super) fn timeout_error(spec: &ToolSpec, limit: Duration) -> ToolError {
    let done = match spec.effect {
        Effect::Reads => "",
        Effect::Writes { .. } => " It may have changed something: check before you call it again.",
    };
    let name = &spec.name;
    ToolError(format!(
        "`{name}` did not end within {} s, its time limit, and was stopped. Request less at once, \
            such as a narrower scope or fewer results, or try again later.{done}",
        limit.as_secs_f64()
    ))
}

/// Reads an object from `params`, with the policy's replacements. Empty if absent.
pub(super) fn read_object(call: &Call<'_>, key: Key) -> Result<Map<String, Value>, String> {
    let Some(text) = find_param(call, key) else { return Ok(Map::new()) };
    match STRICT.read(text) {
        Ok(Value::Object(all)) => Ok(all),
        Ok(_) => Err(format!("`params.{key}` must be an object")),
        Err(words) => Err(format!("`params.{key}`: {words}")),
    }
}

fn find_param<'a>(call: &Call<'a>, key: Key) -> Option<&'a [u8]> {
    for (replaced, value) in call.replaced {
        if *replaced == key {
            return value.as_deref();
        }
    }
    call.request.param(key)
}

/// Returns a string member; empty if absent or of another type.
pub(super) fn text_of<'a>(object: &'a Map<String, Value>, name: &str) -> &'a str {
    match object.get(name) {
        Some(Value::String(text)) => text,
        _ => "",
    }
}

/// Builds the result of `tools/call`, within its size limit.
pub(super) fn build_result(output: Output, cap: usize) -> Result<Value, ToolError> {
    let content = if output.content.is_empty() {
        vec![json!({"type": "text", "text": output.structured.to_string()})]
    } else {
        output.content
    };
    let result =
        json!({"content": content, "structuredContent": output.structured, "isError": false});
    let size = result.to_string().len();
    if size > cap {
        return Err(ToolError(format!(
            "the result has {size} bytes and at most {cap} are possible; request less"
        )));
    }
    Ok(result)
}

pub(super) fn build_item(item: &Value, kind: ListKind) -> Option<Item> {
    let key = item.get(kind.key())?.as_str()?.into();
    Some(Item { key, text: item.to_string().into(), headers: None })
}
