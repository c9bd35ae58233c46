//! What a built-in tool is: a spec for clients and models, and an asynchronous function from
//! checked arguments to a result. It knows nothing of messages; `server.rs` reads and writes those.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use lockgate_policy::Refusal;
use lockgate_protocol::jsonrpc::{self, Message, SentBy};
use lockgate_protocol::scan::MAX_DEPTH;
use lockgate_text::json::Reader;
use lockgate_upstream::{BoxFuture, CallerView, ClientChannel};
use serde_json::{Map, Value, json};

/// How long a call may take when its spec says nothing.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(30);
/// How long any call may take.
pub(crate) const MAX_TIMEOUT: Duration = Duration::from_secs(300);
/// Largest result in bytes when the spec says nothing.
const CAP: usize = 10 << 20;

/// How arguments and results are read: as every parser would.
pub(crate) const STRICT: Reader = Reader::exact(64);

/// A tool of a built-in server. One file, or one struct, each.
pub(crate) trait Tool: Send + Sync + 'static {
    /// What clients see; read once.
    fn spec(&self) -> ToolSpec;

    /// Runs it with arguments that fit the spec, defaults filled in. Dropping the future cancels
    /// it.
    fn run<'a>(
        &'a self,
        arguments: Arguments,
        client: Client<'a>,
    ) -> BoxFuture<'a, Result<Output, ToolError>>;
}

/// What clients see of a tool, and its bounds. Made by [`ToolSpec::new`]; says "reads only, within
/// the gateway" unless told.
#[derive(Clone, Debug)]
pub(crate) struct ToolSpec {
    /// `category/name`.
    pub(crate) name: Cow<'static, str>,
    pub(crate) title: Cow<'static, str>,
    /// For models: what it does, when to use it, what comes back.
    pub(crate) description: Cow<'static, str>,
    pub(crate) version: &'static str,
    pub(crate) tags: &'static [&'static str],
    /// What it needs to be allowed, such as `file:write`; for people and policy.
    pub(crate) permissions: &'static [&'static str],
    pub(crate) effect: Effect,
    /// It reaches what is outside of the operator's own systems.
    pub(crate) open_world: bool,
    /// It waits for other servers, in its caller's name: they bound such calls, so it keeps no
    /// place here meanwhile.
    pub(crate) asks_servers: bool,
    /// At most [`MAX_TIMEOUT`].
    pub(crate) timeout: Duration,
    /// Largest result in bytes.
    pub(crate) cap: usize,
    /// JSON Schema (2020-12) of the arguments: an object without other properties.
    pub(crate) input: Value,
    /// The same of the structured result.
    pub(crate) output: Value,
}

/// What a call does to the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Nothing.
    Reads,
    /// It changes something; `destructive` when something may be lost, `idempotent` when twice is
    /// as once.
    Writes { destructive: bool, idempotent: bool },
}

impl ToolSpec {
    pub(crate) fn new(
        name: impl Into<Cow<'static, str>>,
        title: impl Into<Cow<'static, str>>,
        description: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self {
            name: name.into(),
            title: title.into(),
            description: description.into(),
            version: "1.0.0",
            tags: &[],
            permissions: &[],
            effect: Effect::Reads,
            open_world: false,
            asks_servers: false,
            timeout: TIMEOUT,
            cap: CAP,
            input: object_schema(json!({}), &[]),
            output: object_schema(json!({}), &[]),
        }
    }

    /// Properties of the arguments, each a schema, and which of them are required.
    pub(crate) fn input(mut self, properties: Value, required: &[&str]) -> Self {
        self.input = object_schema(properties, required);
        self
    }

    /// Properties of the structured result, and which of them are always there.
    pub(crate) fn output(mut self, properties: Value, required: &[&str]) -> Self {
        self.output = object_schema(properties, required);
        self
    }

    pub(crate) fn effect(mut self, effect: Effect) -> Self {
        self.effect = effect;
        self
    }

    pub(crate) fn open_world(mut self) -> Self {
        self.open_world = true;
        self
    }

    /// It waits for other servers.
    pub(crate) fn asks_servers(mut self) -> Self {
        self.asks_servers = true;
        self
    }

    pub(crate) fn tags(mut self, tags: &'static [&'static str]) -> Self {
        self.tags = tags;
        self
    }

    pub(crate) fn permissions(mut self, permissions: &'static [&'static str]) -> Self {
        self.permissions = permissions;
        self
    }

    pub(crate) fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout.min(MAX_TIMEOUT);
        self
    }

    pub(crate) fn cap(mut self, bytes: usize) -> Self {
        self.cap = bytes;
        self
    }

    /// The category and the tool's own name in its server.
    pub(crate) fn split_name(&self) -> Option<(&str, &str)> {
        self.name.split_once('/')
    }

    pub(crate) fn category(&self) -> &str {
        match self.split_name() {
            Some((category, _)) => category,
            None => "",
        }
    }

    /// The name within its category.
    pub(crate) fn own_name(&self) -> &str {
        match self.split_name() {
            Some((_, own)) => own,
            None => &self.name,
        }
    }

    /// The item of `tools/list`.
    pub(crate) fn list_item(&self) -> Value {
        let (reads, destructive, idempotent) = match self.effect {
            Effect::Reads => (true, false, true),
            Effect::Writes { destructive, idempotent } => (false, destructive, idempotent),
        };
        json!({
            "name": self.own_name(),
            "title": self.title,
            "description": self.description,
            "inputSchema": self.input,
            "outputSchema": self.output,
            "annotations": {
                "title": self.title, "readOnlyHint": reads, "destructiveHint": destructive,
                "idempotentHint": idempotent, "openWorldHint": self.open_world
            },
            "_meta": {
                "lockgate/tool": self.name, "lockgate/version": self.version,
                "lockgate/tags": self.tags, "lockgate/permissions": self.permissions
            }
        })
    }
}

/// The schema of a list of objects, of which nothing else is known.
pub(crate) fn list_schema(properties: Value, required: &[&str]) -> Value {
    let mut item = json!({"type": "object", "required": required, "additionalProperties": false});
    item["properties"] = properties;
    json!({"type": "array", "items": item})
}

fn object_schema(properties: Value, required: &[&str]) -> Value {
    let mut schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object", "required": required, "additionalProperties": false
    });
    schema["properties"] = properties;
    schema
}

/// What a tool gives back.
#[derive(Debug)]
pub(crate) struct Output {
    /// Fits the spec's output schema.
    pub(crate) structured: Value,
    /// Content for the model; the structured result as JSON text when there is none.
    pub(crate) content: Vec<Value>,
}

impl Output {
    /// With text that reads better than JSON.
    pub(crate) fn with_text(structured: Value, text: impl Into<String>) -> Self {
        Self { structured, content: vec![json!({"type": "text", "text": text.into()})] }
    }
}

impl From<Value> for Output {
    fn from(structured: Value) -> Self {
        Self { structured, content: Vec::new() }
    }
}

/// The operation failed: one sentence that says why, and what to do instead. The client gets it as
/// an `isError` result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ToolError(pub(crate) String);

impl ToolError {
    pub(crate) fn new(words: impl Into<String>) -> Self {
        Self(words.into())
    }
}

/// What is a sentence already.
impl From<String> for ToolError {
    fn from(words: String) -> Self {
        Self(words)
    }
}

/// A rule of the tool's own refuses: its sentence says what to send instead.
impl From<Refusal> for ToolError {
    fn from(refusal: Refusal) -> Self {
        Self(refusal.0)
    }
}

/// Arguments that fit the tool's input schema, defaults filled in.
#[derive(Debug, Default)]
pub(crate) struct Arguments(pub(crate) Map<String, Value>);

impl Arguments {
    pub(crate) fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }

    /// A string that is required or has a default.
    pub(crate) fn text(&self, name: &str) -> Result<&str, ToolError> {
        match self.maybe_text(name) {
            Some(text) => Ok(text),
            None => Err(missing(name, "a string")),
        }
    }

    pub(crate) fn maybe_text(&self, name: &str) -> Option<&str> {
        self.get(name)?.as_str()
    }

    /// A whole number that is required or has a default.
    pub(crate) fn whole(&self, name: &str) -> Result<u64, ToolError> {
        match self.maybe_whole(name) {
            Some(number) => Ok(number),
            None => Err(missing(name, "a whole number")),
        }
    }

    /// The same, as a count of what is in memory.
    pub(crate) fn count(&self, name: &str) -> Result<usize, ToolError> {
        Ok(usize::try_from(self.whole(name)?).unwrap_or(usize::MAX))
    }

    pub(crate) fn maybe_whole(&self, name: &str) -> Option<u64> {
        self.get(name)?.as_u64()
    }

    /// A switch; false when it is absent.
    pub(crate) fn flag(&self, name: &str) -> bool {
        matches!(self.get(name), Some(Value::Bool(true)))
    }
}

/// The beginning of a text, for a message: at most so many characters.
pub(crate) fn first_chars(text: &str, most: usize) -> &str {
    match text.char_indices().nth(most) {
        Some((end, _)) => &text[..end],
        None => text,
    }
}

fn missing(name: &str, expected: &str) -> ToolError {
    ToolError(format!("the argument `{name}` is missing; expected {expected}"))
}

/// The client that a tool runs for.
#[derive(Clone)]
pub(crate) struct Client<'a> {
    pub(crate) channel: Option<Arc<dyn ClientChannel>>,
    /// Who it is and what it may see; without it the call came from nobody in particular (tests).
    pub(crate) caller_view: Option<&'a dyn CallerView>,
}

impl<'a> Client<'a> {
    /// Tells how far the call is, if the client wants to know. The gateway puts the client's token
    /// in.
    pub(crate) fn progress(&self, done: u64, total: Option<u64>, message: Option<&str>) {
        let Some(channel) = &self.channel else { return };
        if !channel.wants_progress() {
            return;
        }
        let mut params = json!({"progressToken": 0, "progress": done});
        if let Some(total) = total {
            params["total"] = total.into();
        }
        if let Some(message) = message {
            params["message"] = message.into();
        }
        let note = json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params});
        if let Ok(Message::Notification(note)) =
            jsonrpc::parse(note.to_string().into(), MAX_DEPTH, SentBy::Server)
        {
            channel.progress(&note);
        }
    }

    /// What the caller is and may see.
    pub(crate) fn caller_view(&self) -> Option<&'a dyn CallerView> {
        self.caller_view
    }

    /// The caller's organisation, for what belongs to one.
    pub(crate) fn organisation(&self) -> Option<&'a str> {
        self.caller_view?.organisation()
    }
}
