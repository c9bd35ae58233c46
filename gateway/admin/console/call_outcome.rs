//! The outcome of a call that was made from a page: what the tool, prompt or resource returned, or
//! the fault, and the next step.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::api_client::{ApiError, ApiPath, TOO_LARGE};
use super::diagnosis::Severity;
use super::shown::{MOST_SHOWN, REST, show_json, show_text};
use crate::fault::Fault;

/// Most parts of a result that a page shows.
const MAX_PARTS: usize = 100;
/// Largest image that a page shows, and most bytes of all of them.
const MAX_IMAGE: usize = 2 << 20;
/// Types of images that browsers show without running anything.
const IMAGES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// See the module.
pub(crate) struct CallOutcome {
    /// What failed; nothing where the call succeeded.
    pub(crate) fault: Option<Fault>,
    /// The parts of the result.
    pub(crate) parts: Vec<CallPart>,
    /// Where the next step is, and what it is.
    pub(crate) next: Option<(String, &'static str)>,
    /// How long the call took.
    pub(crate) milliseconds: u128,
}

/// One part of a result.
pub(crate) enum CallPart {
    /// A label, which may be empty, and the text.
    Text(String, String),
    /// The type and the bytes.
    Image(String, Vec<u8>),
    /// A resource that can be read: its URI and its name.
    Link(String, String),
}

/// What was called.
pub(crate) struct Called<'a> {
    pub(crate) server: &'a str,
    pub(crate) name: &'a str,
    pub(crate) arguments: &'a Value,
    /// Whether the visitor may have decisions explained.
    pub(crate) is_operator: bool,
}

impl CallPart {
    fn bytes(&self) -> usize {
        match self {
            Self::Text(label, text) => label.len() + text.len(),
            Self::Image(_, bytes) => bytes.len(),
            Self::Link(uri, name) => uri.len() + name.len(),
        }
    }

    /// The page that reads a linked resource.
    pub(crate) fn address(uri: &str) -> String {
        ApiPath::link(&["console", "resources", uri], "", "/console/servers")
    }
}

impl CallOutcome {
    pub(crate) fn is_error(&self) -> bool {
        self.fault.is_some()
    }

    /// Whether a policy refused the call.
    pub(crate) fn is_denied(&self) -> bool {
        matches!(&self.fault, Some(fault) if fault.stage == "policy")
    }

    pub(crate) fn severity(&self) -> Severity {
        if self.is_denied() { Severity::Denied } else { Severity::Bad }
    }

    /// What it takes to keep it.
    pub(crate) fn bytes(&self) -> usize {
        self.parts.iter().map(CallPart::bytes).sum()
    }

    fn new(fault: Option<Fault>, parts: Vec<CallPart>) -> Self {
        Self { fault, parts, next: None, milliseconds: 0 }
    }

    /// The result of a tool (`CallToolResult`), a prompt (`GetPromptResult`) or a resource
    /// (`ReadResourceResult`).
    pub(crate) fn of_result(name: &str, result: &Value) -> Self {
        let parts = show_parts(result);
        let is_error = result.get("isError") == Some(&Value::Bool(true));
        Self::new(is_error.then(|| Fault::new("call", name, "isError", "")), parts)
    }

    /// The same, where a policy has answered in the tool's place.
    pub(crate) fn refused_by_policy(mut self, name: &str, arguments: &Value) -> Self {
        self.fault = Some(Fault::new("policy", name, "", ""));
        self.next = explain_address(name, arguments);
        self
    }

    /// The call did not reach its end.
    pub(crate) fn of_error(error: &ApiError, called: &Called<'_>) -> Self {
        let (stage, mark) = find_stage(error);
        let next = match stage {
            "policy" if called.is_operator => explain_address(called.name, called.arguments),
            "call" => called.server_page(),
            _ => None,
        };
        let fault = Fault::new(stage, called.name, mark, &error.detail);
        Self { next, ..Self::new(Some(fault), Vec::new()) }
    }
}

fn explain_address(name: &str, arguments: &Value) -> Option<(String, &'static str)> {
    let path = ApiPath::new(&["console", "access"]).ok()?;
    let path = path.with("call", name).with("arguments", &arguments.to_string());
    Some((path.as_str().to_owned(), "Explain the decision"))
}

impl Called<'_> {
    fn server_page(&self) -> Option<(String, &'static str)> {
        let path = ApiPath::new(&["console", "servers", self.server]).ok()?;
        Some((path.as_str().to_owned(), "Open the server"))
    }
}

/// The stage that failed, and the text that selects its row of the table.
fn find_stage(error: &ApiError) -> (&'static str, &'static str) {
    match (error.status.as_u16(), error.code.as_str()) {
        (_, TOO_LARGE) => ("answer", ""),
        (400 | 422, _) => ("schema", ""),
        (403, _) => ("policy", ""),
        (404, _) => ("pin", ""),
        (413 | 429, _) | (503, "OVERLOADED") => ("limit", ""),
        (428, _) => ("call", "input_required"),
        _ => ("call", ""),
    }
}

/// The parts of a result, as far as a page shows them.
fn show_parts(result: &Value) -> Vec<CallPart> {
    let mut parts = Vec::new();
    let mut room = (MOST_SHOWN, MAX_IMAGE);
    for member in ["content", "messages", "contents"] {
        let all = result.get(member).and_then(Value::as_array);
        for part in all.into_iter().flatten() {
            if room.0 == 0 || parts.len() == MAX_PARTS {
                parts.push(CallPart::Text(String::new(), REST.trim_start().to_owned()));
                return parts;
            }
            parts.push(show_part(part, &mut room));
        }
    }
    if let Some(structured) = result.get("structuredContent") {
        parts.push(CallPart::Text("Structured content".into(), show_json(structured)));
    }
    parts
}

/// One part of a tool's result, one message of a prompt or one content of a resource.
fn show_part(part: &Value, room: &mut (usize, usize)) -> CallPart {
    let role = text(part, "role");
    let content = part.get("content").filter(|content| content.is_object()).unwrap_or(part);
    let inner = content.get("resource").unwrap_or(content);
    let label = if role.is_empty() { text(inner, "uri") } else { role };
    if text(content, "type") == "resource_link" {
        return CallPart::Link(text(content, "uri").to_owned(), text(content, "name").to_owned());
    }
    if let Some(image) = read_image(inner, &mut room.1) {
        return image;
    }
    let shown = match inner.get("text") {
        Some(Value::String(text)) => show_text(text),
        _ => show_json(part),
    };
    room.0 = room.0.saturating_sub(shown.len());
    CallPart::Text(label.to_owned(), shown)
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or("")
}

/// An image that fits, in a type that runs nothing.
fn read_image(content: &Value, room: &mut usize) -> Option<CallPart> {
    let kind = text(content, "mimeType");
    if !IMAGES.contains(&kind) {
        return None;
    }
    let data = match text(content, "data") {
        "" => text(content, "blob"),
        data => data,
    };
    if data.is_empty() || data.len() / 4 * 3 > *room {
        return None;
    }
    let bytes = STANDARD.decode(data).ok()?;
    *room = room.saturating_sub(bytes.len());
    Some(CallPart::Image(kind.to_owned(), bytes))
}

#[cfg(test)]
mod tests;
