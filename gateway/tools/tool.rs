//! What a built-in tool is: a description for the model, schemas, and an asynchronous function from arguments to a
//! result. It knows nothing of messages; `server.rs` reads and writes those.

use std::sync::Arc;

use lockgate_protocol::jsonrpc::{self, From, Message};
use lockgate_protocol::scan::MAX_DEPTH;
use lockgate_upstream::{BoxFuture, Conversation};
use serde_json::{Map, Value, json};

/// A tool of a built-in server. One file, or one struct, each.
pub(crate) trait Tool: Send + Sync + 'static {
    /// What clients see; read once.
    fn card(&self) -> Card;

    /// Runs it. Dropping the future cancels it.
    fn run<'a>(&'a self, arguments: Map<String, Value>, client: Client) -> BoxFuture<'a, Result<Value, Mistake>>;
}

/// What clients see of a tool. All built-in tools read only, and stay within the gateway.
pub(crate) struct Card {
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    /// For models: what it does, when to use it, what comes back.
    pub(crate) description: &'static str,
    /// Properties of the arguments (JSON Schema 2020-12), and which are required.
    pub(crate) input: Value,
    pub(crate) required: &'static [&'static str],
    /// Properties of the structured result.
    pub(crate) output: Value,
}

/// An argument that the tool cannot work with: what was expected, and what came.
#[derive(Debug)]
pub(crate) struct Mistake(pub(crate) String);

/// The client that a tool runs for.
#[derive(Clone)]
pub(crate) struct Client(pub(crate) Option<Arc<dyn Conversation>>);

impl Client {
    /// Tells how far the call is, if the client wants to know. The gateway puts the client's token in.
    pub(crate) fn progress(&self, done: u64, total: u64) {
        let Some(conversation) = self.0.as_ref().filter(|c| c.wants_progress()) else { return };
        let note = json!({
            "jsonrpc": "2.0", "method": "notifications/progress",
            "params": {"progressToken": 0, "progress": done, "total": total}
        });
        if let Ok(Message::Notification(note)) = jsonrpc::parse(note.to_string().into(), MAX_DEPTH, From::Server) {
            conversation.progress(&note);
        }
    }
}

impl Card {
    /// The item of `tools/list`.
    pub(crate) fn item(&self) -> Value {
        let object = |properties: &Value, required: &[&str]| json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false});
        let outputs: Vec<&str> = self.output.as_object().into_iter().flatten().map(|(name, _)| name.as_str()).collect();
        json!({
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "inputSchema": object(&self.input, self.required),
            "outputSchema": object(&self.output, &outputs),
            "annotations": {"readOnlyHint": true, "destructiveHint": false, "idempotentHint": true, "openWorldHint": false}
        })
    }

    /// Refuses arguments that are unknown or missing, by name.
    pub(crate) fn check(&self, arguments: &Map<String, Value>) -> Result<(), Mistake> {
        let known: Vec<&str> = self.input.as_object().into_iter().flatten().map(|(name, _)| name.as_str()).collect();
        if let Some(name) = arguments.keys().find(|name| !known.contains(&name.as_str())) {
            let known = if known.is_empty() { "takes none".to_owned() } else { format!("takes {}", known.join(", ")) };
            return Err(Mistake(format!("unknown argument `{name}`: this tool {known}")));
        }
        match self.required.iter().find(|name| !arguments.contains_key(**name)) {
            Some(name) => Err(Mistake(format!("the argument `{name}` is missing"))),
            None => Ok(()),
        }
    }
}

/// A string of at most `max` bytes.
pub(crate) fn text(arguments: &Map<String, Value>, name: &str, max: usize) -> Result<String, Mistake> {
    match arguments.get(name) {
        Some(Value::String(text)) if text.len() <= max => Ok(text.clone()),
        Some(Value::String(text)) => {
            Err(Mistake(format!("`{name}` must have at most {max} bytes, received {}", text.len())))
        }
        other => Err(wrong(name, "a string", other)),
    }
}

/// A finite number.
pub(crate) fn number(arguments: &Map<String, Value>, name: &str) -> Result<f64, Mistake> {
    arguments.get(name).and_then(Value::as_f64).ok_or_else(|| wrong(name, "a number", arguments.get(name)))
}

/// A whole number in a range; `default` when it is absent.
pub(crate) fn whole(
    arguments: &Map<String, Value>,
    name: &str,
    range: (u64, u64),
    default: u64,
) -> Result<u64, Mistake> {
    let (least, most) = range;
    match arguments.get(name) {
        None => Ok(default),
        Some(value) => {
            let found = value.as_u64().filter(|n| (least..=most).contains(n));
            found.ok_or_else(|| wrong(name, &format!("a whole number from {least} to {most}"), Some(value)))
        }
    }
}

fn wrong(name: &str, expected: &str, received: Option<&Value>) -> Mistake {
    let received = received.map_or("nothing".to_owned(), |v| v.to_string().chars().take(80).collect());
    Mistake(format!("`{name}` must be {expected}, received {received}"))
}
