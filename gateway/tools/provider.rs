//! Prompts and resources of a built-in server, and how they tell that they have changed.

use std::sync::Weak;

use lockgate_protocol::capabilities::Offers;
use lockgate_upstream::{BoxFuture, ListKind};
use serde_json::{Map, Value, json};

use crate::tool::Client;

/// Prompts and resources of a server. Results and items are JSON as MCP has them.
pub(crate) trait Provider: Send + Sync + 'static {
    /// Which of prompts, resources, subscriptions and completions it has. Tools are added by the
    /// server.
    fn offers(&self) -> Offers;

    /// Called once, before anything else, with the way to tell of changes.
    fn attach(&self, _teller: ChangeNotifier) {}

    /// The items of one list. No I/O and never waits: it is asked when the server starts and after
    /// each change.
    fn items(&self, kind: ListKind) -> Vec<Value>;

    /// The result of `prompts/get`; an error is for whom called wrongly.
    fn prompt<'a>(
        &'a self,
        name: &'a str,
        _arguments: &'a Map<String, Value>,
        _client: Client<'a>,
    ) -> BoxFuture<'a, Result<Value, String>> {
        Box::pin(async move { Err(format!("unknown prompt: {name}")) })
    }

    /// What a resource holds; `None` when there is no such resource.
    fn read<'a>(
        &'a self,
        _uri: &'a str,
        _client: Client<'a>,
    ) -> BoxFuture<'a, Result<Option<Contents>, String>> {
        Box::pin(async { Ok(None) })
    }

    /// Values that complete what was typed of an argument; at most 100 are shown.
    fn complete(&self, _wanted: &CompletionRequest<'_>) -> Vec<String> {
        Vec::new()
    }

    /// Somebody wants to hear of changes of a resource: called once until `unsubscribe`, however
    /// many want to.
    fn subscribe(&self, _uri: &str) -> Result<(), String> {
        Err("the server does not offer subscriptions".into())
    }

    /// Nobody wants to hear of it any more.
    fn unsubscribe(&self, _uri: &str) {}
}

/// What is to be completed.
pub(crate) struct CompletionRequest<'a> {
    pub(crate) target: CompletionTarget<'a>,
    /// The argument's name.
    pub(crate) argument: &'a str,
    /// What was typed of it.
    pub(crate) typed: &'a str,
}

/// Whose argument is to be completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CompletionTarget<'a> {
    /// By name.
    Prompt(&'a str),
    /// By URI template.
    Resource(&'a str),
}

/// What a resource holds: `contents` of `resources/read`, and how long it may be kept.
pub(crate) struct Contents {
    pub(crate) contents: Value,
    pub(crate) ttl_ms: u64,
    /// The same for every caller.
    pub(crate) public: bool,
}

impl Contents {
    /// What depends on the caller or may change at any time.
    pub(crate) fn fresh(contents: Value) -> Self {
        Self { contents, ttl_ms: 0, public: false }
    }

    /// What stays the same for a while.
    pub(crate) fn lasting(contents: Value, ttl_ms: u64) -> Self {
        Self { contents, ttl_ms, public: true }
    }

    pub(crate) fn result(self) -> Value {
        let scope = if self.public { "public" } else { "private" };
        json!({"contents": self.contents, "ttlMs": self.ttl_ms, "cacheScope": scope})
    }
}

/// Who hears of changes: the server that a provider belongs to.
pub(crate) trait ChangeListener: Send + Sync {
    /// Some list is another one.
    fn lists_changed(&self);

    /// A resource that was subscribed to holds something else.
    fn resource_updated(&self, uri: &str);
}

/// How a provider says that something has changed. Never waits; does nothing once the server is
/// gone.
#[derive(Clone)]
pub(crate) struct ChangeNotifier(pub(crate) Weak<dyn ChangeListener>);

impl ChangeNotifier {
    /// Some list is another one: all of them are read again, and clients are told.
    pub(crate) fn lists_changed(&self) {
        if let Some(listener) = self.0.upgrade() {
            listener.lists_changed();
        }
    }

    /// A resource that was subscribed to holds something else.
    pub(crate) fn updated(&self, uri: &str) {
        if let Some(listener) = self.0.upgrade() {
            listener.resource_updated(uri);
        }
    }
}
