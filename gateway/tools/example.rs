//! The `example` server: harmless tools, a prompt and resources to try a client with. It keeps nothing and reaches
//! nothing.

use std::time::Duration;

use lockgate_upstream::{BoxFuture, ListKind};
use serde_json::{Map, Value, json};

use crate::server::{Material, Server};
use crate::tool::{Card, Client, Mistake, Tool, number, text, whole};

const README: &str = "example://readme";
const NOTE: &str = "example://note/";
/// Longest text that is echoed, in bytes.
const MAX_TEXT: usize = 10_000;
/// Longest name that is greeted or has a note, in bytes.
const MAX_NAME: usize = 100;
const NAMES: [&str; 6] = ["Ada", "Alan", "Barbara", "Edsger", "Grace", "Margaret"];

pub(crate) fn server(version: &str) -> Server {
    let tools: Vec<Box<dyn Tool>> = vec![Box::new(Echo), Box::new(Add), Box::new(Count)];
    let instructions = "Harmless tools to try a client with. They change nothing.";
    Server::new("example", version, instructions, tools, Some(Box::new(Examples)))
}

struct Echo;

impl Tool for Echo {
    fn card(&self) -> Card {
        Card {
            name: "echo",
            title: "Echo",
            description: "Gives back the text it is given, unchanged. Use it to check that calls arrive.",
            input: json!({"text": {"type": "string", "maxLength": MAX_TEXT, "description": "What to give back"}}),
            required: &["text"],
            output: json!({"text": {"type": "string"}}),
        }
    }

    fn run<'a>(&'a self, arguments: Map<String, Value>, _: Client) -> BoxFuture<'a, Result<Value, Mistake>> {
        Box::pin(async move { Ok(json!({"text": text(&arguments, "text", MAX_TEXT)?})) })
    }
}

struct Add;

impl Tool for Add {
    fn card(&self) -> Card {
        Card {
            name: "add",
            title: "Add two numbers",
            description: "Adds `a` and `b` and gives their sum.",
            input: json!({"a": {"type": "number"}, "b": {"type": "number"}}),
            required: &["a", "b"],
            output: json!({"sum": {"type": "number"}}),
        }
    }

    fn run<'a>(&'a self, arguments: Map<String, Value>, _: Client) -> BoxFuture<'a, Result<Value, Mistake>> {
        Box::pin(async move {
            let sum = number(&arguments, "a")? + number(&arguments, "b")?;
            if sum.is_finite() {
                Ok(json!({"sum": sum}))
            } else {
                Err(Mistake("the sum is too large for a number".into()))
            }
        })
    }
}

struct Count;

impl Tool for Count {
    fn card(&self) -> Card {
        Card {
            name: "count",
            title: "Count slowly",
            description: "Counts from 1 to `n` and reports progress at each step. Use it to see progress and cancellation.",
            input: json!({
                "n": {"type": "integer", "minimum": 1, "maximum": 20, "description": "How far to count"},
                "pause_ms": {"type": "integer", "minimum": 0, "maximum": 500, "default": 100, "description": "Pause before each step"}
            }),
            required: &["n"],
            output: json!({"counted": {"type": "integer"}}),
        }
    }

    fn run<'a>(&'a self, arguments: Map<String, Value>, client: Client) -> BoxFuture<'a, Result<Value, Mistake>> {
        Box::pin(async move {
            let steps = whole(&arguments, "n", (1, 20), 1)?;
            let pause = Duration::from_millis(whole(&arguments, "pause_ms", (0, 500), 100)?);
            for step in 1..=steps {
                tokio::time::sleep(pause).await;
                client.progress(step, steps);
            }
            Ok(json!({"counted": steps}))
        })
    }
}

struct Examples;

impl Material for Examples {
    fn items(&self, kind: ListKind) -> Vec<Value> {
        match kind {
            ListKind::Tools => vec![],
            ListKind::Prompts => vec![json!({
                "name": "greet",
                "title": "Greet somebody",
                "description": "Asks the model to greet a person by name.",
                "arguments": [{"name": "name", "description": "Whom to greet", "required": true}]
            })],
            ListKind::Resources => vec![json!({
                "uri": README, "name": "readme", "title": "About the example server", "mimeType": "text/markdown"
            })],
            ListKind::Templates => vec![json!({
                "uriTemplate": "example://note/{name}", "name": "note", "title": "A note about somebody", "mimeType": "text/plain"
            })],
        }
    }

    fn prompt(&self, name: &str, arguments: &Map<String, Value>) -> Result<Value, String> {
        if name != "greet" {
            return Err(format!("unknown prompt: {name}"));
        }
        let whom = text(arguments, "name", MAX_NAME).map_err(|mistake| mistake.0)?;
        let words = format!("Please greet {whom} warmly, in one sentence.");
        Ok(
            json!({"description": "A greeting", "messages": [{"role": "user", "content": {"type": "text", "text": words}}]}),
        )
    }

    fn read(&self, uri: &str) -> Option<Value> {
        let (kind, words) = if uri == README {
            (
                "text/markdown",
                "# Example server\n\nPart of the gateway, to try clients with: `echo`, `add`, `count`.\n".to_owned(),
            )
        } else {
            let name = uri.strip_prefix(NOTE).filter(|n| !n.is_empty() && n.len() <= MAX_NAME && !n.contains('/'))?;
            ("text/plain", format!("A note about {name}.\n"))
        };
        Some(json!([{"uri": uri, "mimeType": kind, "text": words}]))
    }

    fn complete(&self, _target: &str, argument: &str, typed: &str) -> Vec<String> {
        let fits = |name: &&&str| argument == "name" && name.to_lowercase().starts_with(&typed.to_lowercase());
        NAMES.iter().filter(fits).map(|name| (*name).to_owned()).collect()
    }
}
