//! Prompts and resources of a built-in server, and notifications of their changes.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use lockgate_protocol::capabilities::Offers;
use lockgate_upstream::{BoxFuture, ListKind};
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use tokio::sync::Notify;

/// Prompts and resources of a server. Results and items are JSON as defined by MCP.
pub(crate) trait Provider: Send + Sync + 'static {
    /// Returns which of prompts, resources, subscriptions and completions it offers. The server
    /// adds tools.
    fn offers(&self) -> Offers;

    /// Receives the notifier for changes. Called once, before any other method.
    fn attach(&self, _teller: ChangeNotifier) {}

    /// Returns the items of a list. Called when the server starts and after each change, so it must
    /// not block or do I/O.
    fn items(&self, kind: ListKind) -> Vec<Value>;

    /// Returns the result of `prompts/get`; an error is the caller's mistake.
    fn prompt(&self, name: &str, _arguments: &Map<String, Value>) -> Result<Value, String> {
        Err(format!("unknown prompt: {name}"))
    }

    /// Returns the contents of a resource; `None` if there is no such resource.
    fn read<'a>(&'a self, _uri: &'a str) -> BoxFuture<'a, Result<Option<Contents>, String>> {
        Box::pin(async { Ok(None) })
    }

    /// Returns the known values of an argument. Those that begin as typed complete it.
    fn values(&self, _target: CompletionTarget<'_>, _argument: &str) -> Vec<String> {
        Vec::new()
    }

    /// Starts notifications about a resource. Called for the first subscriber only, until
    /// `unsubscribe`.
    fn subscribe(&self, _uri: &str) -> Result<(), String> {
        Err("the server does not offer subscriptions".into())
    }

    /// Ends notifications about a resource, after its last subscriber left.
    fn unsubscribe(&self, _uri: &str) {}
}

/// The owner of the argument to complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CompletionTarget<'a> {
    /// By name.
    Prompt(&'a str),
    /// By URI template.
    Resource(&'a str),
}

/// The contents of a resource: `contents` of `resources/read`, and their cache lifetime.
pub(crate) struct Contents {
    pub(crate) contents: Value,
    pub(crate) ttl_ms: u64,
    /// Whether the contents are the same for every caller.
    pub(crate) public: bool,
}

impl Contents {
    /// Creates contents that depend on the caller or may change at any time.
    pub(crate) fn fresh(contents: Value) -> Self {
        Self { contents, ttl_ms: 0, public: false }
    }

    /// Creates contents that may be cached for `ttl_ms`.
    pub(crate) fn lasting(contents: Value, ttl_ms: u64) -> Self {
        Self { contents, ttl_ms, public: true }
    }

    pub(crate) fn result(self) -> Value {
        let scope = if self.public { "public" } else { "private" };
        json!({"contents": self.contents, "ttlMs": self.ttl_ms, "cacheScope": scope})
    }
}

/// The receiver of changes: the server that a provider belongs to.
pub(crate) trait ChangeListener: Send + Sync {
    /// Reads all lists again after a change of at least one, and notifies clients. Never waits.
    fn lists_changed(&self);

    /// Notifies the subscribers of a resource of its change. Never waits.
    fn resource_updated(&self, uri: &str);
}

/// A provider's handle for reporting changes. Leads nowhere once the server is gone.
pub(crate) type ChangeNotifier = Weak<dyn ChangeListener>;

/// Resources with subscribers whose changes are found by polling, with their attributes at the last
/// poll.
pub(crate) struct Watched<M> {
    seen: Mutex<BTreeMap<String, Option<M>>>,
    added: Notify,
}

impl<M> Default for Watched<M> {
    fn default() -> Self {
        Self { seen: Mutex::default(), added: Notify::new() }
    }
}

impl<M: PartialEq + Copy> Watched<M> {
    pub(crate) fn add(&self, uri: &str) {
        self.seen.lock().insert(uri.to_owned(), None);
        self.added.notify_one();
    }

    pub(crate) fn remove(&self, uri: &str) {
        self.seen.lock().remove(uri);
    }

    /// Polls the resources. Returns the URIs of those that have changed since the last poll; the
    /// first poll of a resource only records its attributes.
    pub(crate) fn find_changed(&self, look: impl Fn(&str) -> M) -> Vec<String> {
        let uris: Vec<String> = self.seen.lock().keys().cloned().collect();
        let looked: Vec<_> = uris.into_iter().map(|uri| (look(&uri), uri)).collect();
        let mut watched = self.seen.lock();
        let mut changed = Vec::new();
        for (now, uri) in looked {
            if let Some(seen) = watched.get_mut(&uri)
                && let Some(before) = seen.replace(now)
                && before != now
            {
                changed.push(uri);
            }
        }
        changed
    }
}

/// The changes that a poll has found.
#[derive(Default)]
pub(crate) struct Changed {
    pub(crate) resources: Vec<String>,
    /// Whether a list has changed.
    pub(crate) lists: bool,
}

/// Polls the files of a provider, now, at every interval and with each new subscription, until it
/// or its server is gone. `poll` may block.
pub(crate) async fn follow<P: Send + Sync + 'static, M>(
    provider: Weak<P>,
    watched: Arc<Watched<M>>,
    server: ChangeNotifier,
    interval: Duration,
    poll: fn(&P) -> Changed,
) {
    while let Some(provider) = provider.upgrade() {
        let polled = tokio::task::spawn_blocking(move || poll(&provider)).await;
        // A poll that panicked has logged why; the next one may succeed.
        let changes = polled.unwrap_or_default();
        let Some(server) = server.upgrade() else { return };
        for uri in &changes.resources {
            server.resource_updated(uri);
        }
        if changes.lists {
            server.lists_changed();
        }
        drop(server);
        tokio::select! {
            () = tokio::time::sleep(interval) => {}
            () = watched.added.notified() => {}
        }
    }
}

/// Adds bytes to an item of `contents`: as text if they are UTF-8, otherwise as a blob.
pub(crate) fn add_bytes(item: &mut Value, bytes: Vec<u8>) {
    match String::from_utf8(bytes) {
        Ok(text) => item["text"] = text.into(),
        Err(error) => item["blob"] = STANDARD.encode(error.as_bytes()).into(),
    }
}
