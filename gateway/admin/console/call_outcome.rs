//! The outcome of a call made from a page: the result of the tool, prompt or resource, or the
//! fault, and a link to the next step.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::api::TOO_LARGE;
use super::diagnosis::Severity;
use super::redirect::PagePath;
use super::render::{MOST_SHOWN, REST, show_json, show_text};
use crate::api::problem::Problem;
use crate::fault::Fault;

/// Error code of a reached limit of the gateway.
const OVERLOADED: &str = "OVERLOADED";
/// Maximum number of result parts that a page shows.
const MAX_PARTS: usize = 100;
/// Maximum size of all images of a result together, in bytes.
const MAX_IMAGE: usize = 2 << 20;
/// Image types that cannot contain scripts.
const IMAGES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

pub(crate) struct CallOutcome {
    /// The failure; `None` if the call succeeded.
    pub(crate) fault: Option<Fault>,
    pub(crate) parts: Vec<CallPart>,
    /// The address and label of the next step.
    pub(crate) next: Option<(String, &'static str)>,
    pub(crate) milliseconds: u128,
}

pub(crate) enum CallPart {
    /// The label, which may be empty, and the text.
    Text(String, String),
    /// The media type and the bytes.
    Image(String, Vec<u8>),
    /// A link to a resource: its URI and name.
    Link(String, String),
}

/// The target of a call.
pub(crate) struct Called<'a> {
    pub(crate) server: &'a str,
    pub(crate) name: &'a str,
    pub(crate) arguments: &'a Value,
    /// The visitor may open the explanation of a decision: operators, for tools.
    pub(crate) can_explain: bool,
}

impl CallPart {
    fn bytes(&self) -> usize {
        match self {
            Self::Text(label, text) => label.len() + text.len(),
            Self::Image(_, bytes) => bytes.len(),
            Self::Link(uri, name) => uri.len() + name.len(),
        }
    }

    /// Returns the address of the page for a linked resource.
    pub(crate) fn address(uri: &str) -> String {
        PagePath::new(&["console", "resources", uri]).into_text()
    }
}

impl CallOutcome {
    pub(crate) fn is_error(&self) -> bool {
        self.fault.is_some()
    }

    /// Returns whether a policy or a person denied the call, or it was not approved.
    pub(crate) fn is_denied(&self) -> bool {
        let stage = self.fault.as_ref().map_or("", |fault| &fault.stage);
        matches!(stage, "policy" | "approval")
    }

    pub(crate) fn severity(&self) -> Severity {
        if self.is_denied() { Severity::Denied } else { Severity::Bad }
    }

    /// Returns the memory that the outcome occupies, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let fault = self.fault.as_ref().map_or(0, |fault| fault.cause.len());
        let next = self.next.as_ref().map_or(0, |(address, _)| address.len());
        self.parts.iter().map(CallPart::bytes).sum::<usize>() + fault + next
    }

    fn new(fault: Option<Fault>, parts: Vec<CallPart>) -> Self {
        Self { fault, parts, next: None, milliseconds: 0 }
    }

    /// Creates the outcome of a `CallToolResult`, `GetPromptResult` or `ReadResourceResult`.
    pub(crate) fn of_result(called: &Called<'_>, result: &Value) -> Self {
        let parts = show_parts(result);
        if result.get("isError") != Some(&Value::Bool(true)) {
            return Self::new(None, parts);
        }
        if let Some(CallPart::Text(_, text)) = parts.first()
            && let Some(fault) = find_denial(called.name, text)
        {
            return Self { next: called.explanation(), ..Self::new(Some(fault), Vec::new()) };
        }
        Self::new(Some(Fault::new("call", called.name, "isError", "")), parts)
    }

    /// Creates the outcome of a call that the visitor cancelled.
    pub(crate) fn cancelled() -> Self {
        let fault = Fault {
            stage: "call".into(),
            summary: "The call was cancelled.".into(),
            cause: String::new(),
            fix: "A server that had the call was told to stop, and may have acted before.".into(),
            since: None,
        };
        Self::new(Some(fault), Vec::new())
    }

    /// Creates the outcome of a call without a result.
    pub(crate) fn of_error(error: &Problem, called: &Called<'_>) -> Self {
        let fault = match find_denial(called.name, error.detail()) {
            // A limit of waiting approvals is worded as a denial.
            Some(denial) if error.code() != OVERLOADED => denial,
            _ => {
                let (stage, mark) = find_stage(error);
                Fault::new(stage, called.name, mark, error.detail())
            }
        };
        let next = match fault.stage.as_str() {
            "policy" | "approval" => called.explanation(),
            "call" => called.server_page(),
            _ => None,
        };
        Self { next, ..Self::new(Some(fault), Vec::new()) }
    }
}

/// Returns the fault of a call that the gateway denied because of its arguments, or because it was
/// not approved: such denials are tool errors, for models to read, and name the policy to the
/// caller. A server that imitates them misleads only about its own tool.
fn find_denial(name: &str, text: &str) -> Option<Fault> {
    if let Some(rest) = text.strip_prefix("the call was not made, refused") {
        let cause = rest.strip_prefix(" by ").unwrap_or(text);
        return Some(Fault::new("approval", name, text, cause));
    }
    text.starts_with("refused by policy ").then(|| Fault::new("policy", name, "", text))
}

impl Called<'_> {
    /// Returns the page that explains a decision, if the visitor may open it.
    fn explanation(&self) -> Option<(String, &'static str)> {
        let path = PagePath::new(&["console", "access"]);
        let path = path.with("call", self.name).with("arguments", &self.arguments.to_string());
        self.can_explain.then(|| (path.into_text(), "Explain the decision"))
    }

    fn server_page(&self) -> Option<(String, &'static str)> {
        let path = PagePath::new(&["console", "servers", self.server]);
        Some((path.into_text(), "Open the server"))
    }
}

/// Returns the stage that failed, and the text that selects its row in the table of faults.
fn find_stage(error: &Problem) -> (&'static str, &'static str) {
    match (error.status().as_u16(), error.code()) {
        (_, TOO_LARGE) => ("answer", ""),
        (400 | 422, _) => ("schema", ""),
        (403, _) => ("policy", ""),
        (404, _) => ("pin", ""),
        (413 | 429, _) | (503, OVERLOADED) => ("limit", ""),
        (428, _) => ("call", "input_required"),
        _ => ("call", ""),
    }
}

/// Returns the parts of a result, up to the limits of a page.
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

/// Converts content of a tool result or resource, or a prompt message.
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

/// Decodes an image that is within the limit and of a type without scripts.
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
