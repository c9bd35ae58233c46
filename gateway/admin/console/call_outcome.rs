//! What became of a call that somebody has tried: what the tool said, or the stage that failed, in
//! a sentence for the person who can mend it, and what they can do next.

use serde_json::Value;

use super::api_client::{ApiError, ApiPath, TOO_LARGE, sentence};
use super::shown::{MOST_SHOWN, REST, show_json, show_text};

/// Most parts of a result that a page shows.
const MAX_PARTS: usize = 100;
const POLICY_TITLE: &str = "A policy does not let you make this call";
const POLICY_ADVICE: &str =
    "Nothing has reached the server. Whoever writes the policies can let it through.";

/// See the module.
pub(crate) struct CallOutcome {
    /// The stage that failed; empty where none did.
    pub(crate) stage: &'static str,
    pub(crate) title: &'static str,
    /// What to do about it; empty where there is nothing to do.
    pub(crate) advice: &'static str,
    /// What was said, part by part.
    pub(crate) texts: Vec<String>,
    /// Where the next step is, and what it is.
    pub(crate) next: Option<(String, &'static str)>,
}

/// What was called.
pub(crate) struct Called<'a> {
    pub(crate) server: &'a str,
    pub(crate) name: &'a str,
    pub(crate) arguments: &'a Value,
    /// Whether the visitor may have decisions explained.
    pub(crate) is_operator: bool,
}

impl CallOutcome {
    pub(crate) fn is_error(&self) -> bool {
        !self.stage.is_empty()
    }

    /// A `CallToolResult`: texts as they are, everything else as JSON.
    pub(crate) fn of_result(result: &Value) -> Self {
        let texts = show_parts(result);
        if result.get("isError") != Some(&Value::Bool(true)) {
            return Self { stage: "", title: "The tool answered", advice: "", texts, next: None };
        }
        let advice = "What was said is below: change the arguments, or look at the server's own \
            log. A policy that refuses arguments answers in the tool's place, too.";
        Self { stage: "call", title: "The tool answered with an error", advice, texts, next: None }
    }

    /// The same, where a policy has answered in the tool's place.
    pub(crate) fn refused_by_policy(mut self, name: &str, arguments: &Value) -> Self {
        self.stage = "policy";
        self.title = POLICY_TITLE;
        self.advice = POLICY_ADVICE;
        self.next = explain_address(name, arguments);
        self
    }

    /// The call did not reach its end.
    pub(crate) fn of_error(error: &ApiError, called: &Called<'_>) -> Self {
        let texts = vec![sentence(&error.detail)];
        let (stage, title, advice) = describe(error);
        let next = match stage {
            "policy" if called.is_operator => explain_address(called.name, called.arguments),
            "call" => called.server_page(),
            _ => None,
        };
        Self { stage, title, advice, texts, next }
    }
}

fn explain_address(name: &str, arguments: &Value) -> Option<(String, &'static str)> {
    let path = ApiPath::new(&["console", "access"]).ok()?;
    let path = path.with("call", name).with("arguments", &arguments.to_string());
    Some((path.as_str().to_owned(), "See which rule, and what would change it"))
}

impl Called<'_> {
    fn server_page(&self) -> Option<(String, &'static str)> {
        let path = ApiPath::new(&["console", "servers", self.server]).ok()?;
        Some((path.as_str().to_owned(), "See how the server is"))
    }
}

/// The stage that failed, as a title, and what to do.
fn describe(error: &ApiError) -> (&'static str, &'static str, &'static str) {
    match (error.status.as_u16(), error.code.as_str()) {
        (_, TOO_LARGE) => (
            "answer",
            "The tool answered with more than a page shows",
            "The call was made. Programs get the whole answer, over the API and over MCP.",
        ),
        (400 | 422, _) => (
            "schema",
            "The arguments are not what the tool takes",
            "Mend the argument that is named, and call again. Nothing has reached the server.",
        ),
        (403, _) => ("policy", POLICY_TITLE, POLICY_ADVICE),
        (404, _) => (
            "pin",
            "The tool is not on offer any more",
            "Its server has taken it back, or its definition has changed and waits for approval.",
        ),
        (413 | 429, _) | (503, "OVERLOADED") => (
            "limit",
            "A limit was reached before the call was made",
            "Wait a moment and call again, or ask an operator for a higher limit.",
        ),
        (428, _) => (
            "call",
            "The tool wants to ask its caller something",
            "Pages cannot answer for you: call it from a client that shows the question.",
        ),
        _ => (
            "call",
            "The server did not answer as it should",
            "Look at how the server is. Whether the call was carried out there is not known.",
        ),
    }
}

/// What a tool said, part by part, as far as a page shows it.
fn show_parts(result: &Value) -> Vec<String> {
    let mut texts = Vec::new();
    let mut shown = 0;
    let content = result.get("content").and_then(Value::as_array).into_iter().flatten();
    for part in content.chain(result.get("structuredContent")) {
        if shown >= MOST_SHOWN || texts.len() == MAX_PARTS {
            texts.push(REST.trim_start().to_owned());
            break;
        }
        let text = match part.get("text") {
            Some(Value::String(text)) => show_text(text),
            _ => show_json(part),
        };
        shown += text.len();
        texts.push(text);
    }
    texts
}

#[cfg(test)]
mod tests;
