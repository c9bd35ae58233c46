//! A built-in server: its catalog, and the dispatch of calls to its tools and its provider.
//! Failures that a model can correct (a wrong argument, a failed operation) are results with
//! `isError`; mistakes of the client are JSON-RPC errors.

mod answer;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use bytes::Bytes;
use lockgate_admission::{Bounds, Charge, ConcurrencyError, ConcurrencyLimit, Permit, spawn};
use lockgate_protocol::capabilities::Offers;
use lockgate_protocol::jsonrpc::{self, Message, Outcome, SentBy};
use lockgate_protocol::method::Method;
use lockgate_protocol::revision::{Era, Revision};
use lockgate_protocol::scan::MAX_DEPTH;
use lockgate_protocol::{code, write};
use lockgate_upstream::{
    Answer, AnswerKind, BoxFuture, Call, Caller, CallerIdentity, Catalog, Event, Events, Instance,
    Item, ListKind, Peer, ResourceUpdate, ServerId, Stage, StageError, Status, Subscription, Topic,
    Upstream, UpstreamError, UpstreamErrorKind, UpstreamState,
};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::watch;

use crate::PreparedServer;
use crate::provider::{ChangeListener, ChangeNotifier, Provider};
use crate::registry::RegisteredTool;
use crate::tool::{AnyTool, DEFAULT_TIMEOUT, MAX_TIMEOUT};

/// Maximum number of subscribed resources per server.
const MAX_SUBSCRIPTIONS: usize = 1000;
/// Concurrent and queued calls; the same as the defaults for upstreams.
const CALLS: Bounds = Bounds { running: 32, waiting: 128 };

#[derive(Default)]
pub(crate) struct ServerDefinition {
    /// For models: the purpose of the server.
    pub(crate) instructions: String,
    pub(crate) tools: Vec<Box<dyn AnyTool>>,
    pub(crate) provider: Option<Arc<dyn Provider>>,
    /// Availability of its backend, if that may change.
    pub(crate) backing: Option<watch::Receiver<Backing>>,
    /// Why the server offers nothing, if it failed.
    pub(crate) trouble: Option<String>,
}

impl ServerDefinition {
    /// Returns the definition, or that of a server that failed.
    pub(crate) fn or_trouble(slug: &str, built: Result<Self, String>) -> Self {
        built.unwrap_or_else(|words| {
            tracing::error!(server = slug, "{words}");
            Self { trouble: Some(words), ..Self::default() }
        })
    }
}

pub(crate) struct Server {
    slug: &'static str,
    instance: Instance,
    status: ArcSwap<Status>,
    catalog: ArcSwap<Catalog>,
    instructions: Arc<str>,
    tools: Vec<Arc<RegisteredTool>>,
    by_name: HashMap<Box<str>, Arc<RegisteredTool>>,
    provider: Option<Arc<dyn Provider>>,
    events: Events,
    /// Number of subscribers by URI.
    subscriptions: Mutex<BTreeMap<String, usize>>,
    calls: Arc<ConcurrencyLimit>,
}

impl Server {
    pub(crate) fn start(
        slug: &'static str,
        version: &str,
        PreparedServer { tools, definition }: PreparedServer,
        events: Events,
    ) -> Arc<Self> {
        let ServerDefinition { instructions, provider, backing, trouble, .. } = definition;
        let peer = Peer {
            era: Era::Modern,
            revision: Revision::V2026_07_28,
            transport: "builtin",
            name: slug.to_owned(),
            version: version.to_owned(),
        };
        let mut status = Status {
            state: UpstreamState::Connected,
            since: SystemTime::now(),
            peer: Some(peer),
            trouble: None,
            list_failure: None,
            restarts: 0,
            last_good: None,
        };
        if let Some(words) = trouble {
            status.state = UpstreamState::Failed;
            status.trouble = Some(StageError { stage: Stage::Start, words, stderr: Vec::new() });
        }
        let by_name = tools.iter().map(|tool| (tool.spec.own_name().into(), Arc::clone(tool)));
        let by_name = by_name.collect();
        let server = Arc::new(Self {
            slug,
            instance: Instance::mint(),
            status: ArcSwap::from_pointee(status),
            catalog: ArcSwap::default(),
            instructions: instructions.into(),
            tools,
            by_name,
            provider,
            events,
            subscriptions: Mutex::default(),
            calls: ConcurrencyLimit::new(CALLS, Charge::Turns, None),
        });
        if let Some(provider) = &server.provider {
            let listener: ChangeNotifier = Arc::<Self>::downgrade(&server);
            provider.attach(listener);
        }
        server.rebuild_catalog();
        if let Some(backing) = backing {
            server.follow_backing(backing);
        }
        server
    }

    fn send_event(&self, event: Event) {
        // Without a receiver, the gateway is not yet running; at its start it reads every list.
        let _ = self.events.send(event);
    }

    fn rebuild_catalog(&self) {
        let items = self.tools.iter().map(|entry| entry.spec.list_item());
        let tools = items.filter_map(|item| build_item(&item, ListKind::Tools));
        let provider = self.provider.as_ref();
        let offers = provider.map(|provider| provider.offers()).unwrap_or_default();
        let lists = [
            tools.chain(self.provided_items(ListKind::Tools)).collect(),
            self.provided_items(ListKind::Prompts),
            self.provided_items(ListKind::Resources),
            self.provided_items(ListKind::Templates),
            Vec::new(),
        ];
        let catalog = Catalog {
            version: self.catalog.load().version + 1,
            lists,
            instructions: Some(Arc::clone(&self.instructions)),
            offers: Offers { tools: !self.tools.is_empty(), ..offers },
            ..Catalog::default()
        };
        self.catalog.store(Arc::new(catalog));
        self.send_event(Event::Changed { server: ServerId::shared(self.slug) });
    }

    fn provided_items(&self, kind: ListKind) -> Vec<Item> {
        let Some(provider) = &self.provider else { return Vec::new() };
        provider.items(kind).iter().filter_map(|item| build_item(item, kind)).collect()
    }

    /// Acquires a permit for a concurrent call. Tools that call other servers require none.
    async fn acquire_permit(
        &self,
        call: &Call<'_>,
        limit: Duration,
    ) -> Result<Option<Permit>, UpstreamError> {
        if call.method() == Method::ToolsCall
            && let Some(entry) = self.by_name.get(call.target)
            && entry.spec.asks_servers
        {
            return Ok(None);
        }
        if let Some(permit) = self.calls.try_acquire(call.caller.id) {
            return Ok(Some(permit));
        }
        match tokio::time::timeout(limit, Box::pin(self.calls.acquire(call.caller.id))).await {
            Ok(Ok(permit)) => Ok(Some(permit)),
            Ok(Err(refused)) => Err(self.overload_failure(refused)),
            Err(_) => Err(self.overload_failure(ConcurrencyError::Full)),
        }
    }

    fn overload_failure(&self, refused: ConcurrencyError) -> UpstreamError {
        let words = match refused {
            ConcurrencyError::Displaced => {
                "too many calls of this caller or its organisation are queued, and others are \
                    waiting"
                    .to_owned()
            }
            ConcurrencyError::Full | ConcurrencyError::PoolFull => {
                format!("{} calls are running and {} are waiting", CALLS.running, CALLS.waiting)
            }
        };
        UpstreamErrorKind::Overloaded.error(words).retry_after(self.calls.expected_wait())
    }
}

/// An invalid request: a JSON-RPC code, and a sentence.
struct PayloadError {
    code: i64,
    words: String,
}

/// Most errors concern the parameters.
impl From<String> for PayloadError {
    fn from(words: String) -> Self {
        Self { code: code::INVALID_PARAMS, words }
    }
}

fn build_item(item: &Value, kind: ListKind) -> Option<Item> {
    let key = item.get(kind.key())?.as_str()?.into();
    Some(Item { key, text: item.to_string().into(), headers: None })
}

impl ChangeListener for Server {
    fn lists_changed(&self) {
        self.rebuild_catalog();
    }

    fn resource_updated(&self, uri: &str) {
        let server = ServerId::shared(self.slug);
        let on = Subscription::Shared;
        self.send_event(Event::Updated(ResourceUpdate { server, uri: uri.into(), on }));
    }
}

impl Upstream for Server {
    fn slug(&self) -> &str {
        self.slug
    }

    fn instance(&self) -> Instance {
        self.instance
    }

    fn status(&self) -> Arc<Status> {
        self.status.load_full()
    }

    fn catalog(&self) -> Arc<Catalog> {
        self.catalog.load_full()
    }

    fn calls(&self) -> &Arc<ConcurrencyLimit> {
        &self.calls
    }

    #[inline(never)]
    fn call<'a>(&'a self, call: Call<'a>) -> BoxFuture<'a, Result<Answer, UpstreamError>> {
        Box::pin(async move {
            let limit = call.timeout.unwrap_or(DEFAULT_TIMEOUT).min(MAX_TIMEOUT);
            let _permit = self.acquire_permit(&call, limit).await?;
            let answer = match call.method() {
                // Tools have their own timeouts, reported as results.
                Method::ToolsCall => self.answer_call(&call).await,
                _ => {
                    let answer = tokio::time::timeout(limit, self.answer_call(&call)).await;
                    answer.map_err(|_| {
                        let words = format!("it did not end within {} s", limit.as_secs_f64());
                        UpstreamErrorKind::Timeout.error(words).after_send()
                    })?
                }
            };
            let text = match answer {
                Ok(result) => write::result(b"0", result.to_string().as_bytes()),
                Err(PayloadError { code, words }) => write::error(Some(b"0"), code, &words, None),
            };
            let text = Bytes::from(text);
            match jsonrpc::parse(text.clone(), MAX_DEPTH, SentBy::Server) {
                Ok(Message::Response(response)) => {
                    let error = matches!(response.outcome, Outcome::Error(_));
                    let kind = if error { AnswerKind::Error } else { AnswerKind::Complete };
                    Ok(Answer { text, outcome: response.outcome, kind })
                }
                _ => Err(UpstreamErrorKind::Garbage
                    .error("a built-in tool returned a result that is not a message")),
            }
        })
    }

    #[inline(never)]
    fn subscribe<'a>(
        &'a self,
        topic: &'a Topic,
        _caller: &'a Caller,
        _identity: CallerIdentity<'a>,
    ) -> BoxFuture<'a, Result<Subscription, UpstreamError>> {
        Box::pin(async move {
            // An unreadable resource is reported as missing, regardless of the reason.
            let Some(provider) = &self.provider else { return Err(without_subscriptions()) };
            let Topic::Resource(uri) = topic else { return Err(without_subscriptions()) };
            let mut all = self.subscriptions.lock();
            if let Some(count) = all.get_mut(uri) {
                *count += 1;
                return Ok(Subscription::Shared);
            }
            if all.len() >= MAX_SUBSCRIPTIONS {
                return Err(
                    UpstreamErrorKind::Overloaded.error("too many resources are subscribed to")
                );
            }
            provider.subscribe(uri).map_err(|words| UpstreamErrorKind::NotFound.error(words))?;
            all.insert(uri.to_owned(), 1);
            Ok(Subscription::Shared)
        })
    }

    #[inline(never)]
    fn unsubscribe<'a>(&'a self, topic: &'a Topic, _given: Subscription) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let Topic::Resource(uri) = topic else { return };
            let mut all = self.subscriptions.lock();
            let Some(count) = all.get_mut(uri) else { return };
            *count -= 1;
            if *count == 0 {
                all.remove(uri);
                if let Some(provider) = &self.provider {
                    provider.unsubscribe(uri);
                }
            }
        })
    }

    fn touch(&self) {}

    fn forget_session(&self, _session: u64) {}

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}

// Availability of a built-in server's backend, such as a database. It determines the server's
// state, and recovers by itself. The tools stay listed, and return the cause to their callers.

/// Availability of a server's backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Backing {
    /// No response yet.
    Unknown,
    There,
    /// Unavailable, with the cause.
    Away(String),
}

impl Server {
    /// Updates the server's state from now on, for as long as the server exists.
    fn follow_backing(self: &Arc<Self>, backing: watch::Receiver<Backing>) {
        let now = backing.borrow().clone();
        self.show_backing(&now);
        spawn(follow(Arc::downgrade(self), backing));
    }

    fn show_backing(&self, backing: &Backing) {
        let (state, words) = match backing {
            Backing::Unknown => (UpstreamState::Pending, None),
            Backing::There => (UpstreamState::Connected, None),
            Backing::Away(words) => (UpstreamState::Failed, Some(words)),
        };
        self.status.rcu(|old| {
            let mut new = Status::clone(old);
            new.trouble = words.map(|words| StageError {
                stage: Stage::Run,
                words: words.clone(),
                stderr: Vec::new(),
            });
            if new.state != state {
                (new.state, new.since) = (state, SystemTime::now());
                if old.state == UpstreamState::Connected {
                    new.last_good = Some(new.since);
                }
            }
            new
        });
        self.send_event(Event::Changed { server: ServerId::shared(self.slug) });
    }
}

async fn follow(server: Weak<Server>, mut backing: watch::Receiver<Backing>) {
    while backing.changed().await.is_ok() {
        let now = backing.borrow_and_update().clone();
        let Some(server) = server.upgrade() else { return };
        server.show_backing(&now);
    }
}

fn without_subscriptions() -> UpstreamError {
    let words = "the server does not offer subscriptions";
    UpstreamErrorKind::NotFound.error(words)
}
