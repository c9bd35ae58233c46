//! The MCP client for one configured server: keeps it connected, calls it within its limits, and knows what it offers.
//! A `tools/call` is never sent twice, whatever happens to it.

mod load;
mod outcome;
mod patience;
mod queue;
mod recovery;
mod repeat;
mod session;
pub(crate) mod subscribe;
pub(crate) mod survey;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use arc_swap::{ArcSwap, ArcSwapOption};
use http::HeaderMap;
use lockgate_admission::budget::{Budget, Hold};
use lockgate_admission::{Apart, Bounds, Charge, ConcurrencyLimit, Pools};
use lockgate_egress::{Connector, Origin};
use lockgate_protocol::header::ParamHeaders;
use lockgate_protocol::method::Method;
use lockgate_protocol::outbound::Outbound;
use lockgate_protocol::revision::Era;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use outcome::{Verdict, is_header_mismatch, read};

use crate::breaker::Breaker;
use crate::call::{Answer, BoxFuture, Call};
use crate::catalog::Catalog;
use crate::config::{Config, Transport};
use crate::connection::{Ask, Connection};
use crate::failure::{Failure, Kind};
use crate::health::SilentEnds;
use crate::last_heard::LastHeard;
use crate::status::{Load, State, Status, Trouble};
use crate::{Event, Events, Upstream, supervise};

/// What a client of a server shares with all others.
#[derive(Clone)]
pub struct Surroundings {
    pub connector: Arc<Connector>,
    pub egress: lockgate_egress::Config,
    pub events: Events,
    /// Places that the calls of all servers share.
    pub pools: Pools,
    /// The account of bytes in flight, which what comes in from servers counts in.
    pub budget: Arc<Budget>,
    /// Where large answers are read, so that nothing else on a thread waits for them.
    pub apart: Arc<Apart>,
    /// JSON text of the gateway's own `Implementation`.
    pub info: Arc<[u8]>,
    /// The program that stands between the gateway and a child process; it begins with [`crate::guard`].
    pub guard: PathBuf,
}

/// An upstream: see the module.
pub struct Client {
    pub(crate) shared: Arc<Shared>,
    supervisor: Mutex<Option<tokio::task::JoinHandle<()>>>,
}

/// What calls and the supervisor share.
pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) slug: Arc<str>,
    pub(crate) around: Surroundings,
    /// For HTTP and SSE: where to, and the configured headers.
    pub(crate) origin: Option<(Origin, HeaderMap)>,
    pub(crate) live: ArcSwapOption<Connection>,
    status: ArcSwap<Status>,
    catalog: ArcSwap<Catalog>,
    /// What the catalog takes of the account.
    catalog_hold: Mutex<Hold>,
    /// Woken at every change of the status.
    pub(crate) changed: Notify,
    /// The lists have to be read again.
    pub(crate) stale: Arc<Notify>,
    /// A call could not connect.
    pub(crate) suspect: Notify,
    /// When the server last said anything on any connection.
    pub(crate) last_heard: Arc<LastHeard>,
    pub(crate) recovery: recovery::Recovery,
    pub(crate) silent_ends: Arc<SilentEnds>,
    pub(crate) closing: CancellationToken,
    pub(crate) breaker: Breaker,
    /// Calls that run and wait.
    pub(crate) calls: Arc<ConcurrencyLimit>,
    pub(crate) sessions: session::Sessions,
    pub(crate) wanted: subscribe::Wanted,
    pub(crate) survey: survey::Survey,
    /// Start with `initialize` at once: what an earlier start has found out.
    pub(crate) known_legacy: AtomicBool,
    /// Streamable HTTP is not there, HTTP+SSE is.
    pub(crate) known_sse: AtomicBool,
    /// When the log last said that calls are turned away, in ms since `epoch`.
    refusal_noted: AtomicU64,
    /// When the lists were read, in ms since `epoch`.
    read_at: AtomicU64,
    epoch: Instant,
}

/// A configuration that no client can be made from.
#[derive(Debug, thiserror::Error)]
#[error("server {slug}: {words}")]
pub struct Unusable {
    pub slug: String,
    pub words: String,
}

impl Client {
    /// Makes the client. Nothing is started or connected yet.
    ///
    /// # Errors
    /// The URL or a header cannot be used.
    pub fn new(config: Config, around: Surroundings) -> Result<Arc<Self>, Unusable> {
        Ok(Arc::new(Self { shared: Arc::new(Shared::new(config, around)?), supervisor: Mutex::default() }))
    }

    /// Starts to connect in the background, if that has not been done yet.
    pub fn start(&self) {
        let mut supervisor = self.supervisor.lock();
        if supervisor.is_none() && self.shared.config.enabled && !self.shared.closing.is_cancelled() {
            *supervisor = Some(tokio::spawn(supervise::supervise(Arc::clone(&self.shared))));
        }
    }

    /// The configuration that it was made from.
    pub fn config(&self) -> &Config {
        &self.shared.config
    }
}

impl Shared {
    fn new(config: Config, around: Surroundings) -> Result<Self, Unusable> {
        let unusable = |words: String| Unusable { slug: config.slug.clone(), words };
        let origin = match &config.transport {
            Transport::Stdio { .. } => None,
            Transport::Http { url, headers } | Transport::Sse { url, headers } => {
                let policy = lockgate_egress::Policy::Operator;
                let origin = Origin::new(Arc::clone(&around.connector), url, policy, &around.egress)
                    .map_err(|e| unusable(e.to_string()))?;
                Some((origin, crate::http::header_map(headers).map_err(unusable)?))
            }
        };
        let state = if config.enabled { State::Pending } else { State::Disabled };
        let status = Status { state, since: SystemTime::now(), peer: None, trouble: None, restarts: 0 };
        let bounds = Bounds { running: config.limits.concurrency, waiting: config.limits.queue };
        Ok(Self {
            slug: config.slug.as_str().into(),
            origin,
            live: ArcSwapOption::empty(),
            status: ArcSwap::from_pointee(status),
            catalog: ArcSwap::default(),
            catalog_hold: Mutex::new(Hold::none(Arc::clone(&around.budget))),
            changed: Notify::new(),
            stale: Arc::default(),
            suspect: Notify::new(),
            last_heard: Arc::new(LastHeard::new()),
            recovery: recovery::Recovery::default(),
            silent_ends: Arc::default(),
            closing: CancellationToken::new(),
            breaker: Breaker::new(config.breaker.clone()),
            calls: ConcurrencyLimit::new(bounds, Charge::Turns, Some(around.pools.clone())),
            sessions: session::Sessions::default(),
            wanted: subscribe::Wanted::default(),
            survey: survey::Survey::default(),
            known_legacy: AtomicBool::new(false),
            known_sse: AtomicBool::new(false),
            refusal_noted: AtomicU64::new(0),
            read_at: AtomicU64::new(0),
            epoch: Instant::now(),
            config,
            around,
        })
    }

    pub(crate) fn events(&self) -> &Events {
        &self.around.events
    }

    /// Replaces the status and tells everybody.
    pub(crate) fn set_status(&self, change: impl Fn(&mut Status)) {
        self.status.rcu(|old| {
            let mut new = Status::clone(old);
            change(&mut new);
            if new.state != old.state {
                new.since = SystemTime::now();
            }
            new
        });
        self.changed.notify_waiters();
        let _ = self.events().send(Event::Changed { slug: Arc::clone(&self.slug) });
    }

    pub(crate) fn fail(&self, state: State, trouble: &Trouble) {
        tracing::warn!(server = %self.slug, state = state.as_str(), stderr = ?trouble.stderr, "{trouble}");
        self.set_status(|status| {
            status.state = state;
            status.trouble = Some(trouble.clone());
        });
    }

    /// Publishes new lists; the version grows only when something differs.
    pub(crate) fn publish(&self, mut catalog: Catalog) {
        self.read_at.store(self.now_ms(), Ordering::Relaxed);
        self.survey.complete(&mut catalog);
        let old = self.catalog.load();
        if old.version > 0 && catalog.same_as(&old) {
            return;
        }
        for omitted in &catalog.omitted {
            tracing::warn!(server = %self.slug, "left out: {omitted}");
        }
        if self.catalog_hold.lock().set(catalog.counted_bytes()).is_err() {
            tracing::warn!(server = %self.slug, "there is no memory for its lists (limits.bytes_in_flight); the old ones stay");
            return;
        }
        catalog.version = old.version + 1;
        self.catalog.store(Arc::new(catalog));
        let _ = self.events().send(Event::Changed { slug: Arc::clone(&self.slug) });
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.epoch.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Whether the lists are older than the server said that they keep, and than a minute.
    fn is_out_of_date(&self) -> bool {
        let keeps = self.catalog.load().ttl_ms.unwrap_or(0).max(60_000);
        self.now_ms().saturating_sub(self.read_at.load(Ordering::Relaxed)) > keeps
    }

    /// The connection that everybody shares; waits a little for one that is just coming up.
    pub(crate) async fn shared_connection(&self) -> Result<Arc<Connection>, Failure> {
        match self.live.load_full() {
            Some(connection) => Ok(connection),
            None => Box::pin(self.coming_up()).await,
        }
    }

    async fn run(&self, call: &Call<'_>) -> Result<Answer, Failure> {
        self.breaker.admit(Instant::now()).map_err(|wait| {
            Failure::new(Kind::Unavailable, "the server keeps failing; it is left alone for a while").retry_after(wait)
        })?;
        let verdict = Verdict(Some(&self.breaker));
        let limit = call.timeout.unwrap_or_else(|| self.timeout_of(call));
        let result = patience::within(limit, call, |conversation| async move {
            let _permit = self.enter(call).await?;
            self.attempt(call, conversation).await
        })
        .await;
        verdict.pass(&result, &self.slug);
        if result.is_ok() {
            self.silent_ends.reset();
        }
        result
    }

    fn timeout_of(&self, call: &Call<'_>) -> Duration {
        let own = self.config.tool_timeouts.get(call.target);
        own.filter(|_| call.method == Method::ToolsCall).copied().unwrap_or(self.config.call_timeout)
    }

    /// Sends it; once more only when it certainly did not run, or does no harm when it runs twice.
    async fn attempt(&self, call: &Call<'_>, conversation: patience::Talk) -> Result<Answer, Failure> {
        let connection = self.connection_for(call).await?;
        match self.send(&connection, call, conversation.clone()).await {
            Ok(answer) if !(connection.takes_param_headers() && is_header_mismatch(&answer)) => Ok(answer),
            // Boxed, as is everything that is rare, so that the future of a call stays small.
            other => Box::pin(self.again(other, &connection, call, conversation)).await,
        }
    }

    async fn send(
        &self,
        connection: &Connection,
        call: &Call<'_>,
        conversation: patience::Talk,
    ) -> Result<Answer, Failure> {
        let modern = connection.era() == Era::Modern;
        if let Some(level) = call.caller.log_level.filter(|_| !modern) {
            Box::pin(connection.ensure_level(level)).await;
        }
        let trace = call.trace.as_ref().map(|(parent, state)| (parent.as_str(), state.as_deref()));
        let headers = self.param_headers(connection, call);
        let params = headers.as_ref().map(|h| h.values(call.arguments().unwrap_or(b"{}"))).unwrap_or_default();
        let ask = Ask {
            id: None,
            method: call.method,
            target: call.method.target().map(|_| call.target),
            outbound: Outbound {
                request: Some(call.request),
                replaced: call.replaced,
                sender: None,
                progress: conversation.as_ref().is_some_and(|c| c.wants_progress()),
                log_level: call.caller.log_level.map(crate::call::LogLevel::as_str),
                trace,
            },
            capabilities: &call.caller.capabilities,
            params: &params,
            conversation,
            sink: call.sink.clone(),
            limit: Some(call.timeout.unwrap_or_else(|| self.timeout_of(call))),
        };
        let response = connection.ask(ask).await?;
        read(response, modern)
    }

    /// The `Mcp-Param-*` headers that a modern server's tool wants.
    fn param_headers(&self, connection: &Connection, call: &Call<'_>) -> Option<Arc<ParamHeaders>> {
        if !connection.takes_param_headers() || call.method != Method::ToolsCall {
            return None;
        }
        let catalog = self.catalog.load();
        let tools = if catalog.has_headers { catalog.tools.as_slice() } else { &[] };
        tools.iter().find(|tool| &*tool.key == call.target)?.headers.clone()
    }
}

impl Upstream for Client {
    fn slug(&self) -> &str {
        &self.shared.slug
    }

    fn status(&self) -> Arc<Status> {
        self.shared.status.load_full()
    }

    fn catalog(&self) -> Arc<Catalog> {
        self.shared.catalog.load_full()
    }

    fn load(&self) -> Option<Load> {
        Some(self.shared.load())
    }

    fn calls(&self) -> &Arc<ConcurrencyLimit> {
        &self.shared.calls
    }

    fn streams_answers(&self) -> bool {
        matches!(self.shared.config.transport, Transport::Http { .. })
    }

    fn call<'a>(&'a self, call: Call<'a>) -> BoxFuture<'a, Result<Answer, Failure>> {
        Box::pin(async move { self.shared.run(&call).await })
    }

    fn subscribe<'a>(&'a self, uri: &'a str) -> BoxFuture<'a, Result<(), Failure>> {
        Box::pin(self.shared.subscribe(uri))
    }

    fn unsubscribe<'a>(&'a self, uri: &'a str) -> BoxFuture<'a, ()> {
        Box::pin(self.shared.unsubscribe(uri))
    }

    fn watch_task<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<(), Failure>> {
        Box::pin(self.shared.watch_task(id))
    }

    fn unwatch_task<'a>(&'a self, id: &'a str) -> BoxFuture<'a, ()> {
        self.shared.unwatch_task(id);
        Box::pin(std::future::ready(()))
    }

    fn survey(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.shared.survey())
    }

    fn touch(&self) {
        if self.shared.is_out_of_date() && self.shared.live.load().is_some() {
            self.shared.stale.notify_one();
            self.shared.survey.stale.notify_one();
        }
    }

    fn forget_session(&self, session: u64) {
        self.shared.sessions.forget(session);
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.shared.closing.cancel();
            let supervisor = self.supervisor.lock().take();
            if let Some(supervisor) = supervisor {
                let _ = supervisor.await;
            }
        })
    }
}
