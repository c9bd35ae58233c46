//! Requests from servers to clients (elicitation, sampling, roots), as text: whether a client
//! accepts them, and how they are written.

use std::borrow::Cow;

use lockgate_text::json;
use serde_json::{Map, Value};

use crate::capabilities;
use crate::method::Method;
use crate::revision::Revision;
use crate::write::Object;

/// Returns whether a client with these capabilities accepts this request.
pub fn may_ask(declared: &[u8], method: Method, params: &[u8], revision: Revision) -> bool {
    match method {
        Method::Sample => capabilities::declares(declared, &["sampling"]),
        Method::Roots => capabilities::declares(declared, &["roots"]),
        Method::Elicit if revision < Revision::V2025_06_18 => false,
        Method::Elicit if is_url(params) => {
            revision >= Revision::V2025_11_25
                && capabilities::declares(declared, &["elicitation", "url"])
        }
        Method::Elicit => {
            takes_forms(declared)
                && (revision >= Revision::V2025_11_25 || !requires_several(params))
        }
        _ => false,
    }
}

/// Returns whether an elicitation sends the user to a URL.
fn is_url(params: &[u8]) -> bool {
    let Ok(params) = json::from_slice::<Value>(params) else { return false };
    params["mode"] == "url"
}

/// Returns whether a form requires a multiple choice, which no form could contain before
/// 2025-11-25.
fn requires_several(params: &[u8]) -> bool {
    let Ok(params) = json::from_slice::<Value>(params) else { return false };
    let schema = &params["requestedSchema"];
    let Value::Array(required) = &schema["required"] else { return false };
    let mut names = required.iter().filter_map(Value::as_str);
    names.any(|name| takes_several(&schema["properties"][name]))
}

fn takes_several(field: &Value) -> bool {
    field["type"] == "array"
}

/// Returns whether a client accepts forms, which `elicitation: {}` implies.
fn takes_forms(declared: &[u8]) -> bool {
    capabilities::declares(declared, &["elicitation"])
        && (capabilities::declares(declared, &["elicitation", "form"])
            || !capabilities::declares(declared, &["elicitation", "url"]))
}

/// Adapts a form to a client's revision: before 2025-11-25, choices with titles become `enum` and
/// `enumNames`, and multiple choices are left out. Returns `None` if nothing changes.
pub fn adapt_form(method: Method, params: &[u8], revision: Revision) -> Option<Vec<u8>> {
    if method != Method::Elicit || revision >= Revision::V2025_11_25 {
        return None;
    }
    let Ok(mut params) = json::from_slice::<Value>(params) else { return None };
    let fields = params.pointer_mut("/requestedSchema/properties")?.as_object_mut()?;
    let before = fields.len();
    fields.retain(|_, field| !takes_several(field));
    let mut has_changed = fields.len() < before;
    for field in fields.values_mut() {
        if let Value::Object(field) = field {
            has_changed |= name_choices(field);
        }
    }
    if has_changed { Some(params.to_string().into_bytes()) } else { None }
}

/// Replaces `oneOf` with a `const` and a `title` each by `enum` and `enumNames`.
fn name_choices(field: &mut Map<String, Value>) -> bool {
    let Some(Value::Array(choices)) = field.get("oneOf") else { return false };
    let mut values = Vec::with_capacity(choices.len());
    let mut names = Vec::with_capacity(choices.len());
    for choice in choices {
        let Some(value) = choice.get("const") else { return false };
        values.push(value.clone());
        names.push(choice.get("title").unwrap_or(value).clone());
    }
    field.remove("oneOf");
    field.insert("enum".into(), values.into());
    field.insert("enumNames".into(), names.into());
    true
}

/// Writes a request to a legacy client; `id` is JSON text.
pub fn write_request(id: &[u8], method: Method, params: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(params.len() + id.len() + 80);
    let mut object = Object::open(&mut out);
    object.string("jsonrpc", "2.0");
    object.raw("id", id);
    object.string("method", method.as_str());
    object.raw("params", params);
    object.close();
    out
}

/// Prefixes an elicitation's message with the server's name; other requests are unchanged.
pub fn label<'a>(label: Option<&str>, method: Method, params: &'a [u8]) -> Cow<'a, [u8]> {
    let Some(label) = label else { return Cow::Borrowed(params) };
    if method != Method::Elicit {
        return Cow::Borrowed(params);
    }
    let Ok(Value::Object(mut all)) = json::from_slice(params) else {
        return Cow::Borrowed(params);
    };
    if let Some(Value::String(message)) = all.get_mut("message") {
        message.insert_str(0, &format!("[{label}] "));
    }
    Cow::Owned(Value::Object(all).to_string().into_bytes())
}

#[cfg(test)]
mod tests;
