//! A built-in tool: a spec for clients and models, and an asynchronous function from validated
//! arguments to a result. MCP messages are handled in `server.rs`.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use lockgate_policy::Refusal;
use lockgate_protocol::jsonrpc::{self, Message, SentBy};
use lockgate_protocol::scan::MAX_DEPTH;
use lockgate_text::json::Reader;
use lockgate_upstream::{BoxFuture, CallerView, ClientChannel};
use serde_json::{Map, Value, json};

/// Default timeout of a call.
pub(crate) const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum timeout of a call.
pub(crate) const MAX_TIMEOUT: Duration = Duration::from_secs(300);
/// Default maximum size of a result in bytes.
const DEFAULT_CAP: usize = 10 << 20;

/// Reader of arguments and results: compares object keys exactly, at most 64 levels deep.
pub(crate) const STRICT: Reader = Reader::exact(64);

/// A tool of a built-in server. One file, or one struct, per tool.
pub(crate) trait Tool: Send + Sync + 'static {
    /// Returns the tool's spec; called once.
    fn spec(&self) -> ToolSpec;

    /// Runs the tool with arguments that match the input schema, defaults included. Dropping the
    /// future cancels the run.
    fn run(
        &self,
        arguments: Arguments,
        client: Client<'_>,
    ) -> impl Future<Output = Result<Output, ToolError>> + Send;
}

/// A tool of any type.
pub(crate) trait AnyTool: Send + Sync {
    fn describe(&self) -> ToolSpec;

    fn start<'a>(
        &'a self,
        arguments: Arguments,
        client: Client<'a>,
    ) -> BoxFuture<'a, Result<Output, ToolError>>;
}

impl<T: Tool> AnyTool for T {
    fn describe(&self) -> ToolSpec {
        self.spec()
    }

    fn start<'a>(
        &'a self,
        arguments: Arguments,
        client: Client<'a>,
    ) -> BoxFuture<'a, Result<Output, ToolError>> {
        Box::pin(self.run(arguments, client))
    }
}

/// The public description of a tool, and its limits. [`ToolSpec::new`] describes a tool that only
/// reads, and only within the gateway.
#[derive(Clone, Debug)]
pub(crate) struct ToolSpec {
    /// `category/name`.
    pub(crate) name: Cow<'static, str>,
    pub(crate) title: Cow<'static, str>,
    /// For models: its purpose, when to use it, and its result.
    pub(crate) description: Cow<'static, str>,
    pub(crate) version: &'static str,
    pub(crate) tags: &'static [&'static str],
    /// Permissions it requires, such as `file:write`; for people and policy.
    pub(crate) permissions: &'static [&'static str],
    pub(crate) effect: Effect,
    /// Whether it reaches systems other than the operator's own.
    pub(crate) open_world: bool,
    /// Whether it calls other servers on behalf of its caller. Those servers limit such calls, so
    /// the tool takes no permit here.
    pub(crate) asks_servers: bool,
    /// At most [`MAX_TIMEOUT`].
    pub(crate) timeout: Duration,
    /// Maximum size of a result in bytes.
    pub(crate) cap: usize,
    /// JSON Schema (2020-12) of the arguments: an object without other properties.
    pub(crate) input: Value,
    /// JSON Schema of the structured result.
    pub(crate) output: Value,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// No effect.
    Reads,
    /// A change; `destructive` if data may be lost, `idempotent` if a repeated call has no further
    /// effect.
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
            timeout: DEFAULT_TIMEOUT,
            cap: DEFAULT_CAP,
            input: object_schema(json!({})),
            output: object_schema(json!({})),
        }
    }

    /// Sets the properties of the arguments, in the form of [`properties_schema`].
    pub(crate) fn input(mut self, properties: Value) -> Self {
        self.input = object_schema(properties);
        self
    }

    /// Sets the properties of the structured result, in the form of [`properties_schema`].
    pub(crate) fn output(mut self, properties: Value) -> Self {
        self.output = object_schema(properties);
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

    /// Returns the category, and the tool's name within its server.
    pub(crate) fn split_name(&self) -> Option<(&str, &str)> {
        self.name.split_once('/')
    }

    pub(crate) fn category(&self) -> &str {
        self.split_name().map_or("", |(category, _)| category)
    }

    pub(crate) fn own_name(&self) -> &str {
        self.split_name().map_or(&self.name, |(_, own)| own)
    }

    /// Returns the tool's item in `tools/list`.
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

/// Returns the schema of a list of objects, in the form of [`properties_schema`].
pub(crate) fn list_schema(properties: Value) -> Value {
    json!({"type": "array", "items": properties_schema(json!({}), properties)})
}

/// Returns the schema of a time limit in milliseconds.
pub(crate) fn timeout_schema(default: Duration, most: Duration, description: &str) -> Value {
    let [default, most] =
        [default, most].map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
    json!({
        "type": "integer", "minimum": 1, "maximum": most, "default": default,
        "description": description,
    })
}

fn object_schema(properties: Value) -> Value {
    let draft = json!({"$schema": "https://json-schema.org/draft/2020-12/schema"});
    properties_schema(draft, properties)
}

/// Completes the schema of an object without other properties. Each property is a schema, the name
/// of a type, or the default of a boolean; those that may be absent end in `?`.
fn properties_schema(mut schema: Value, properties: Value) -> Value {
    let mut required = Vec::new();
    let mut all = Map::new();
    if let Value::Object(properties) = properties {
        for (name, property) in properties {
            let property = match property {
                Value::String(kind) => json!({"type": kind}),
                Value::Bool(default) => json!({"type": "boolean", "default": default}),
                schema => schema,
            };
            match name.strip_suffix('?') {
                Some(name) => all.insert(name.to_owned(), property),
                None => {
                    required.push(name.clone());
                    all.insert(name, property)
                }
            };
        }
    }
    schema["type"] = "object".into();
    schema["required"] = required.into();
    schema["additionalProperties"] = false.into();
    schema["properties"] = all.into();
    schema
}

#[derive(Debug)]
pub(crate) struct Output {
    /// Matches the spec's output schema.
    pub(crate) structured: Value,
    /// Text for the model, if it reads better than the structured result as JSON.
    pub(crate) text: Option<String>,
}

impl From<Value> for Output {
    fn from(structured: Value) -> Self {
        Self { structured, text: None }
    }
}

/// A failed operation: a sentence with the cause and the fix. Sent to the client as an `isError`
/// result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ToolError(pub(crate) String);

impl ToolError {
    pub(crate) fn new(words: impl Into<String>) -> Self {
        Self(words.into())
    }
}

impl From<String> for ToolError {
    fn from(words: String) -> Self {
        Self(words)
    }
}

/// A refusal by one of the tool's own rules; its sentence includes the fix.
impl From<Refusal> for ToolError {
    fn from(refusal: Refusal) -> Self {
        Self(refusal.0)
    }
}

/// Arguments that match the tool's input schema, defaults included: an object.
#[derive(Debug, Default)]
pub(crate) struct Arguments(pub(crate) Value);

impl Arguments {
    pub(crate) fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }

    /// Returns a string argument that is required or has a default.
    pub(crate) fn text(&self, name: &str) -> Result<&str, ToolError> {
        self.maybe_text(name).ok_or_else(|| missing(name, "a string"))
    }

    pub(crate) fn maybe_text(&self, name: &str) -> Option<&str> {
        self.get(name)?.as_str()
    }

    /// Returns an integer argument that is required or has a default.
    pub(crate) fn whole(&self, name: &str) -> Result<u64, ToolError> {
        self.maybe_whole(name).ok_or_else(|| missing(name, "a whole number"))
    }

    /// Returns an integer argument as a `usize`, saturating.
    pub(crate) fn count(&self, name: &str) -> Result<usize, ToolError> {
        Ok(usize::try_from(self.whole(name)?).unwrap_or(usize::MAX))
    }

    pub(crate) fn maybe_whole(&self, name: &str) -> Option<u64> {
        self.get(name)?.as_u64()
    }

    /// Returns a boolean argument; false if absent.
    pub(crate) fn flag(&self, name: &str) -> bool {
        matches!(self.get(name), Some(Value::Bool(true)))
    }
}

/// Returns a duration in milliseconds, with three decimals.
pub(crate) fn milliseconds(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e3
}

/// Returns the first `most` characters of a text, for a message.
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
    /// The caller's identity and visible items; `None` in tests.
    pub(crate) caller_view: Option<&'a dyn CallerView>,
}

impl<'a> Client<'a> {
    /// Sends a progress notification if the client requested progress. The gateway replaces the
    /// token with the client's.
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

    /// Returns the caller's organisation, if any.
    pub(crate) fn organisation(&self) -> Option<&'a str> {
        self.caller_view?.identity().organisation
    }
}
