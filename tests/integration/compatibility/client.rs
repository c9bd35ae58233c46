//! A client of one revision at one endpoint: it declares all capabilities of its revision, answers
//! questions, and validates every message against the schema.

use serde_json::{Value, json};

use crate::rig::client::{MODERN, Request, with_meta};
use crate::rig::schema::Schema;
use crate::rig::{Gate, Session, Stream};

/// Limit on the rounds of questions in one call.
const MAX_ROUNDS: usize = 5;
const TASKS: &str = "io.modelcontextprotocol/tasks";

pub struct Client<'a> {
    gate: &'a Gate,
    pub revision: &'static str,
    path: String,
    session: Option<Session<'a>>,
    schema: Schema,
    /// Invalid messages.
    pub invalid: Vec<String>,
}

/// The messages of one exchange.
#[derive(Default)]
pub struct Reply {
    pub last: Value,
    /// The messages before the response.
    pub events: Vec<Value>,
    /// The questions, by method.
    pub asked: Vec<Value>,
}

impl Reply {
    /// Returns the text of the first block of a tool's result.
    pub fn text(&self) -> &str {
        self.last["result"]["content"][0]["text"].as_str().unwrap_or_default()
    }

    pub fn result(&self) -> &Value {
        &self.last["result"]
    }

    pub fn has_heard(&self, method: &str) -> bool {
        self.events.iter().any(|event| event["method"] == method)
    }

    /// Returns whether the call succeeded.
    pub fn is_good(&self) -> bool {
        self.last.get("result").is_some_and(|result| result["isError"] != true)
    }
}

/// Returns the capabilities that a client of a revision can declare.
fn capabilities(revision: &str) -> Value {
    let mut all = json!({"sampling": {}, "roots": {"listChanged": true}});
    match revision {
        "2025-06-18" => all["elicitation"] = json!({}),
        "2025-11-25" | MODERN => all["elicitation"] = json!({"form": {}, "url": {}}),
        _ => {}
    }
    if revision == MODERN {
        all["roots"] = json!({});
    }
    all
}

impl<'a> Client<'a> {
    pub async fn open(gate: &'a Gate, revision: &'static str, path: String) -> Self {
        let session = match revision {
            MODERN => None,
            _ => Some(gate.session_with(&path, revision, capabilities(revision)).await),
        };
        let schema = Schema::of(revision);
        let mut client = Self { gate, revision, path, session, schema, invalid: Vec::new() };
        if let Some(session) = &client.session {
            let welcome = json!({"jsonrpc": "2.0", "id": 0, "result": session.welcome});
            client.check("initialize", &welcome);
        }
        client
    }

    pub fn is_modern(&self) -> bool {
        self.session.is_none()
    }

    fn check(&mut self, method: &str, message: &Value) {
        if let Err(problem) = self.schema.check(method, message) {
            self.invalid.push(problem);
        }
    }

    fn write(&self, method: &str, params: &Value) -> Request {
        if let Some(session) = &self.session {
            let mut params = params.clone();
            if method == "tools/call" {
                params["_meta"] = json!({"progressToken": "p"});
            }
            return Request::legacy(&self.path, &session.id, 7, method, &params);
        }
        let mut meta = params["_meta"].clone();
        if meta.is_null() {
            meta = json!({});
        }
        if meta["io.modelcontextprotocol/clientCapabilities"].is_null() {
            meta["io.modelcontextprotocol/clientCapabilities"] = capabilities(MODERN);
        }
        if method == "tools/call" {
            meta["progressToken"] = json!("p");
            meta["io.modelcontextprotocol/logLevel"] = json!("debug");
        }
        let mut params = params.clone();
        params["_meta"] = meta;
        Request::modern(&self.path, method, with_meta(params))
    }

    /// Sends a request, answers its questions, and returns the final response.
    pub async fn ask(&mut self, method: &str, params: Value) -> Reply {
        let mut reply = Reply::default();
        let mut params = params;
        for _ in 0..MAX_ROUNDS {
            let stream = self.write(method, &params).open(self.gate.address).await;
            self.read(method, stream, &mut reply).await;
            let result = &reply.last["result"];
            if result["resultType"] != "input_required" {
                break;
            }
            let mut answers = json!({});
            for (key, question) in result["inputRequests"].as_object().into_iter().flatten() {
                reply.asked.push(question.clone());
                answers[key] = answer(question);
            }
            params["inputResponses"] = answers;
            match result.get("requestState") {
                Some(state) => params["requestState"] = state.clone(),
                None => {
                    params.as_object_mut().unwrap().remove("requestState");
                }
            }
        }
        reply
    }

    pub async fn call(&mut self, tool: &str, arguments: Value) -> Reply {
        self.ask("tools/call", json!({"name": tool, "arguments": arguments})).await
    }

    /// Calls a tool as a client that also declares tasks.
    pub async fn call_with_tasks(&mut self, tool: &str, arguments: Value) -> Reply {
        let mut able = capabilities(MODERN);
        able["extensions"] = json!({TASKS: {}});
        let meta = json!({"io.modelcontextprotocol/clientCapabilities": able});
        let params = json!({"name": tool, "arguments": arguments, "_meta": meta});
        self.ask("tools/call", params).await
    }

    /// Returns the state of a task.
    pub async fn look_at(&mut self, id: &str) -> Value {
        let mut able = capabilities(MODERN);
        able["extensions"] = json!({TASKS: {}});
        let meta = json!({"io.modelcontextprotocol/clientCapabilities": able});
        let reply = self.ask("tasks/get", json!({"taskId": id, "_meta": meta})).await;
        reply.last["result"].clone()
    }

    async fn read(&mut self, method: &str, mut stream: Stream, reply: &mut Reply) {
        let kind = stream.head.header("content-type").unwrap_or_default();
        if !kind.starts_with("text/event-stream") {
            reply.last = stream.whole().await.json();
            self.check(method, &reply.last);
            return;
        }
        while let Some(message) = stream.next().await {
            self.check(method, &message);
            if message.get("method").is_none() {
                reply.last = message;
                return;
            }
            match (message.get("id").cloned(), &self.session) {
                (Some(id), Some(session)) => {
                    let said = json!({"jsonrpc": "2.0", "id": id, "result": answer(&message)});
                    session.post(said.to_string()).send(self.gate.address).await;
                    reply.asked.push(message);
                }
                _ => reply.events.push(message),
            }
        }
        panic!("{method}: the stream ended without an answer");
    }

    /// Starts a call, and cancels it after its first message.
    pub async fn cancel(&mut self, tool: &str) {
        let params = json!({"name": tool, "arguments": {}});
        let mut stream = self.write("tools/call", &params).open(self.gate.address).await;
        let first = stream.next().await.expect("progress");
        self.check("tools/call", &first);
        if let Some(session) = &self.session {
            let note = json!({"jsonrpc": "2.0", "method": "notifications/cancelled",
                "params": {"requestId": 7}});
            session.post(note.to_string()).send(self.gate.address).await;
        }
    }

    /// Opens the stream for messages outside calls, if this revision has such a stream.
    pub async fn outside(&self) -> Option<Stream> {
        match &self.session {
            Some(session) => Some(session.listen().await),
            None => None,
        }
    }

    /// Opens the stream for changes of the tool list and of one resource.
    pub async fn listen(&mut self, uri: &str) -> Stream {
        if let Some(stream) = self.outside().await {
            let subscribed = self.ask("resources/subscribe", json!({"uri": uri})).await;
            assert!(subscribed.is_good(), "{}", subscribed.last);
            return stream;
        }
        let filter = json!({"notifications": {"resourceSubscriptions": [uri],
            "toolsListChanged": true}});
        let request = self.write("subscriptions/listen", &filter);
        let mut stream = request.open(self.gate.address).await;
        let first = stream.next().await.expect("an acknowledgement");
        assert_eq!(first["method"], "notifications/subscriptions/acknowledged", "{first}");
        self.check("subscriptions/listen", &first);
        stream
    }

    /// Reads a stream up to a message of this method.
    pub async fn hear(&mut self, stream: &mut Stream, method: &str) -> Value {
        loop {
            let message = stream.next().await.expect("a message");
            self.check("subscriptions/listen", &message);
            if message["method"] == method {
                return message;
            }
        }
    }
}

/// Returns this client's answer to a question.
fn answer(question: &Value) -> Value {
    let params = &question["params"];
    match question["method"].as_str().unwrap_or_default() {
        "sampling/createMessage" => json!({"role": "assistant", "model": "m",
            "content": {"type": "text", "text": "Paris"}}),
        "roots/list" => json!({"roots": [{"uri": "file:///work", "name": "work"}]}),
        _ if params["mode"] == "url" => json!({"action": "accept"}),
        _ => {
            let mut content = json!({});
            let fields = params["requestedSchema"]["properties"].as_object();
            for (name, field) in fields.into_iter().flatten() {
                content[name] = match field["type"].as_str() {
                    Some("boolean") => json!(true),
                    Some("integer" | "number") => json!(1),
                    _ => json!("Ann"),
                };
            }
            json!({"action": "accept", "content": content})
        }
    }
}
