//! One built-in server: its catalog, written once, and the way of a call to its tools and material. What a model can
//! mend (a wrong argument) is a result with `isError`; what a client did wrong is an error.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use lockgate_protocol::capabilities::Offers;
use lockgate_protocol::code;
use lockgate_protocol::jsonrpc::{self, From, Message, Outcome};
use lockgate_protocol::method::Method;
use lockgate_protocol::revision::{Era, Revision};
use lockgate_protocol::scan::MAX_DEPTH;
use lockgate_protocol::write;
use lockgate_upstream::{
    Answer, AnswerKind, BoxFuture, Call, Catalog, Failure, FailureKind, Item, ListKind, Peer, State, Status, Upstream,
};
use serde_json::{Map, Value, json};

use crate::tool::{Card, Client, Tool};

/// How long any call may take.
const LIMIT: Duration = Duration::from_secs(30);

/// Prompts and resources of a server. Results and items are JSON as MCP has them.
pub(crate) trait Material: Send + Sync + 'static {
    fn items(&self, kind: ListKind) -> Vec<Value>;
    /// The result of `prompts/get`.
    fn prompt(&self, name: &str, arguments: &Map<String, Value>) -> Result<Value, String>;
    /// The `contents` of `resources/read`; `None` when there is no such resource.
    fn read(&self, uri: &str) -> Option<Value>;
    /// Values that complete what was typed of an argument.
    fn complete(&self, target: &str, argument: &str, typed: &str) -> Vec<String>;
}

/// A built-in server.
pub(crate) struct Server {
    slug: &'static str,
    status: Arc<Status>,
    catalog: Arc<Catalog>,
    tools: Vec<(Card, Box<dyn Tool>)>,
    material: Option<Box<dyn Material>>,
}

impl Server {
    pub(crate) fn new(
        slug: &'static str,
        version: &str,
        instructions: &str,
        tools: Vec<Box<dyn Tool>>,
        material: Option<Box<dyn Material>>,
    ) -> Self {
        let tools: Vec<_> = tools.into_iter().map(|tool| (tool.card(), tool)).collect();
        let list = |kind: ListKind| -> Vec<Item> {
            let own =
                if kind == ListKind::Tools { tools.iter().map(|(card, _)| card.item()).collect() } else { Vec::new() };
            let more = material.as_ref().map(|m| m.items(kind)).unwrap_or_default();
            own.into_iter().chain(more).filter_map(|item| entry(&item, kind)).collect()
        };
        let catalog = Catalog {
            version: 1,
            tools: list(ListKind::Tools),
            prompts: list(ListKind::Prompts),
            resources: list(ListKind::Resources),
            templates: list(ListKind::Templates),
            instructions: Some(instructions.into()),
            offers: Offers {
                tools: true,
                prompts: material.is_some(),
                resources: material.is_some(),
                completions: material.is_some(),
                ..Offers::default()
            },
            ..Catalog::default()
        };
        let peer = Peer {
            era: Era::Modern,
            revision: Revision::V2026_07_28,
            transport: "builtin",
            name: slug.to_owned(),
            version: version.to_owned(),
        };
        let status =
            Status { state: State::Connected, since: SystemTime::now(), peer: Some(peer), trouble: None, restarts: 0 };
        Self { slug, status: Arc::new(status), catalog: Arc::new(catalog), tools, material }
    }

    async fn answer(&self, call: Call<'_>) -> Result<Value, (i64, String)> {
        let arguments =
            call.request.param("arguments").and_then(|a| serde_json::from_slice(a).ok()).unwrap_or_default();
        let material = self.material.as_ref();
        let invalid = |words: String| (code::INVALID_PARAMS, words);
        match call.method {
            Method::ToolsCall => self.tool(&call, arguments).await.map_err(invalid),
            Method::PromptsGet => material
                .ok_or_else(|| format!("unknown prompt: {}", call.target))
                .and_then(|m| m.prompt(call.target, &arguments))
                .map_err(invalid),
            Method::ResourcesRead => match material.and_then(|m| m.read(call.target)) {
                Some(contents) => Ok(json!({"contents": contents, "ttlMs": 60_000, "cacheScope": "public"})),
                None => Err(invalid("resource not found".to_owned())),
            },
            Method::Complete => {
                let argument: Value =
                    call.request.param("argument").and_then(|a| serde_json::from_slice(a).ok()).unwrap_or_default();
                let part = |name: &str| argument.get(name).and_then(Value::as_str).unwrap_or_default();
                let values = material.map(|m| m.complete(call.target, part("name"), part("value"))).unwrap_or_default();
                Ok(json!({"completion": {"values": values, "hasMore": false}}))
            }
            other => Err((code::METHOD_NOT_FOUND, format!("method not found: {}", other.as_str()))),
        }
    }

    async fn tool(&self, call: &Call<'_>, arguments: Map<String, Value>) -> Result<Value, String> {
        let found = self.tools.iter().find(|(card, _)| card.name == call.target);
        let (card, tool) = found.ok_or_else(|| format!("unknown tool: {}", call.target))?;
        let ran = match card.check(&arguments) {
            Ok(()) => tool.run(arguments, Client(call.conversation.clone())).await,
            Err(mistake) => Err(mistake),
        };
        Ok(match ran {
            Ok(value) => json!({
                "content": [{"type": "text", "text": value.to_string()}],
                "structuredContent": value,
                "isError": false
            }),
            Err(mistake) => json!({"content": [{"type": "text", "text": mistake.0}], "isError": true}),
        })
    }
}

fn entry(item: &Value, kind: ListKind) -> Option<Item> {
    let key = item.get(kind.key())?.as_str()?.into();
    Some(Item { key, text: item.to_string().into(), headers: None })
}

impl Upstream for Server {
    fn slug(&self) -> &str {
        self.slug
    }

    fn status(&self) -> Arc<Status> {
        Arc::clone(&self.status)
    }

    fn catalog(&self) -> Arc<Catalog> {
        Arc::clone(&self.catalog)
    }

    fn call<'a>(&'a self, call: Call<'a>) -> BoxFuture<'a, Result<Answer, Failure>> {
        Box::pin(async move {
            let limit = call.timeout.unwrap_or(LIMIT);
            let late = |_| Failure::new(FailureKind::Timeout, format!("it did not end within {} s", limit.as_secs()));
            let answer = tokio::time::timeout(limit, self.answer(call)).await.map_err(late)?;
            let text = match answer {
                Ok(result) => write::result(b"0", result.to_string().as_bytes()),
                Err((code, words)) => write::error(Some(b"0"), code, &words, None),
            };
            let text = Bytes::from(text);
            match jsonrpc::parse(text.clone(), MAX_DEPTH, From::Server) {
                Ok(Message::Response(response)) => {
                    let error = matches!(response.outcome, Outcome::Error(_));
                    let kind = if error { AnswerKind::Error } else { AnswerKind::Complete };
                    Ok(Answer { text, outcome: response.outcome, kind })
                }
                _ => Err(Failure::new(FailureKind::Garbage, "a built-in tool gave a result that is not a message")),
            }
        })
    }

    fn subscribe<'a>(&'a self, _uri: &'a str) -> BoxFuture<'a, Result<(), Failure>> {
        Box::pin(async { Err(Failure::new(FailureKind::Garbage, "the server does not offer subscriptions")) })
    }

    fn unsubscribe<'a>(&'a self, _uri: &'a str) -> BoxFuture<'a, ()> {
        Box::pin(async {})
    }

    fn touch(&self) {}

    fn forget_session(&self, _session: u64) {}

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}
