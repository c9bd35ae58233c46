//! `example/echo`: the smallest tool. CONTRIBUTING.md shows it as the one to begin with.

use serde_json::json;

use crate::tool::{Arguments, Client, Output, Tool, ToolError, ToolSpec};

/// Longest text that is echoed, in characters.
const MAX_TEXT: usize = 10_000;

pub(super) struct Echo;

impl Tool for Echo {
    fn spec(&self) -> ToolSpec {
        ToolSpec::new(
            "example/echo",
            "Echo",
            "Returns the text unchanged. Use it to check that calls arrive.",
        )
        .input(json!({
            "text": {"type": "string", "maxLength": MAX_TEXT, "description": "The text to return"},
        }))
        .output(json!({"text": "string"}))
        .tags(&["example"])
    }

    async fn run(&self, arguments: Arguments, _: Client<'_>) -> Result<Output, ToolError> {
        Ok(json!({"text": arguments.text("text")?}).into())
    }
}
