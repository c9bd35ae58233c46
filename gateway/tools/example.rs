//! The `example` server: harmless tools, a prompt and resources to test a client with. Stores
//! nothing and connects to nothing.

mod echo;

use std::sync::Arc;
use std::time::Duration;

use lockgate_protocol::capabilities::Offers;
use lockgate_upstream::{BoxFuture, ListKind};
use serde_json::{Map, Number, Value, json};

use crate::provider::{CompletionTarget, Contents, Provider};
use crate::server::ServerDefinition;
use crate::tool::{Arguments, Client, Output, Tool, ToolError, ToolSpec};

const README: &str = "example://readme";
const NOTE: &str = "example://note/";
const NOTES: &str = "example://note/{name}";
/// Maximum length of a name, in bytes.
const MAX_NAME: usize = 100;
/// Cache lifetime of constant resources.
const TTL_MS: u64 = 60_000;
const NAMES: [&str; 6] = ["Ada", "Alan", "Barbara", "Edsger", "Grace", "Margaret"];

pub(crate) fn build() -> ServerDefinition {
    ServerDefinition {
        instructions: "Harmless tools to test a client. They change nothing.".into(),
        tools: vec![Box::new(echo::Echo), Box::new(Add), Box::new(Count)],
        provider: Some(Arc::new(Examples)),
        ..ServerDefinition::default()
    }
}

struct Add;

impl Tool for Add {
    fn spec(&self) -> ToolSpec {
        ToolSpec::new(
            "example/add",
            "Add two numbers",
            "Returns the sum of `a` and `b`; whole numbers stay exact.",
        )
        .input(json!({"a": "number", "b": "number"}))
        .output(json!({"sum": "number"}))
        .tags(&["example"])
    }

    async fn run(&self, arguments: Arguments, _: Client<'_>) -> Result<Output, ToolError> {
        match sum(arguments.get("a"), arguments.get("b")) {
            Some(sum) => Ok(json!({"sum": sum}).into()),
            None => Err(ToolError::new("the sum is too large for a number")),
        }
    }
}

/// Adds exactly for integers, as doubles otherwise. `None` if the sum is out of range.
fn sum(a: Option<&Value>, b: Option<&Value>) -> Option<Number> {
    let a = a?;
    let b = b?;
    if let (Value::Number(a), Value::Number(b)) = (a, b)
        && let (Some(a), Some(b)) = (a.as_i128(), b.as_i128())
    {
        return Number::from_i128(a + b);
    }
    Number::from_f64(a.as_f64()? + b.as_f64()?)
}

struct Count;

impl Tool for Count {
    fn spec(&self) -> ToolSpec {
        ToolSpec::new(
            "example/count",
            "Count slowly",
            "Counts from 1 to `n` and reports progress at each step. Use it to see progress and \
                cancellation.",
        )
        .input(json!({
            "n": {"type": "integer", "minimum": 1, "maximum": 20, "description": "Last number"},
            "pause_ms?": {
                "type": "integer", "minimum": 0, "maximum": 500, "default": 100,
                "description": "Pause before each step",
            },
        }))
        .output(json!({"counted": "integer"}))
        .tags(&["example"])
    }

    async fn run(&self, arguments: Arguments, client: Client<'_>) -> Result<Output, ToolError> {
        let steps = arguments.whole("n")?;
        let pause = Duration::from_millis(arguments.whole("pause_ms")?);
        for step in 1..=steps {
            tokio::time::sleep(pause).await;
            client.progress(step, Some(steps), None);
        }
        Ok(json!({"counted": steps}).into())
    }
}

struct Examples;

impl Provider for Examples {
    fn offers(&self) -> Offers {
        Offers { prompts: true, resources: true, completions: true, ..Offers::default() }
    }

    fn items(&self, kind: ListKind) -> Vec<Value> {
        match kind {
            ListKind::Tools | ListKind::Skills => vec![],
            ListKind::Prompts => vec![json!({
                "name": "greet",
                "title": "Greet a person",
                "description": "Asks the model to greet a person by name.",
                "arguments": [{"name": "name", "description": "Name to greet", "required": true}]
            })],
            ListKind::Resources => vec![json!({
                "uri": README,
                "name": "readme",
                "title": "About the example server",
                "mimeType": "text/markdown",
                "description": "The purpose of the example server, in Markdown.",
            })],
            ListKind::Templates => vec![json!({
                "uriTemplate": NOTES,
                "name": "note",
                "title": "A note about a person",
                "mimeType": "text/plain",
                "description": "A made-up note about the person with that name.",
            })],
        }
    }

    fn prompt(&self, name: &str, arguments: &Map<String, Value>) -> Result<Value, String> {
        if name != "greet" {
            return Err(format!("unknown prompt: {name}"));
        }
        let whom = match arguments.get("name") {
            Some(Value::String(whom)) if whom.len() <= MAX_NAME => whom,
            Some(Value::String(whom)) => {
                return Err(format!(
                    "`name` must have at most {MAX_NAME} bytes, received {}",
                    whom.len()
                ));
            }
            Some(_) => return Err("`name` must be a string".into()),
            None => return Err("the argument `name` is missing; expected a string".into()),
        };
        let words = format!("Please greet {whom} warmly, in one sentence.");
        Ok(json!({
            "description": "A greeting",
            "messages": [{"role": "user", "content": {"type": "text", "text": words}}],
        }))
    }

    fn read<'a>(&'a self, uri: &'a str) -> BoxFuture<'a, Result<Option<Contents>, String>> {
        Box::pin(async move {
            let (kind, words) = if uri == README {
                (
                    "text/markdown",
                    "# Example server\n\nPart of the gateway, to test clients: `echo`, `add`, \
                        `count`.\n"
                        .to_owned(),
                )
            } else {
                let Some(name) = uri.strip_prefix(NOTE) else { return Ok(None) };
                if name.is_empty() || name.len() > MAX_NAME || name.contains('/') {
                    return Ok(None);
                }
                ("text/plain", format!("A note about {name}.\n"))
            };
            Ok(Some(Contents::lasting(
                json!([{"uri": uri, "mimeType": kind, "text": words}]),
                TTL_MS,
            )))
        })
    }

    fn values(&self, target: CompletionTarget<'_>, argument: &str) -> Vec<String> {
        match (target, argument) {
            (CompletionTarget::Prompt("greet") | CompletionTarget::Resource(NOTES), "name") => {
                NAMES.map(str::to_owned).to_vec()
            }
            _ => Vec::new(),
        }
    }
}
