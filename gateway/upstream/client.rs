//! The MCP client for a configured server: keeps it connected, calls it within its limits, and
//! stores its catalog. Never sends a `tools/call` twice unless it certainly did not run.

mod deadline;
mod outcome;
mod queue;
mod session;
mod subscribe;

use std::borrow::Cow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant, SystemTime};

use lockgate_admission::{ConcurrencyLimit, clock, spawn};
use lockgate_protocol::header::ParamHeaders;
use lockgate_protocol::key::Key;
use lockgate_protocol::method::Method;
use lockgate_protocol::outbound::Outbound;
use lockgate_protocol::revision::Era;
use lockgate_protocol::{capabilities, write};
use lockgate_telemetry::TraceContext;
use parking_lot::Mutex;
use scopeguard::{ScopeGuard, guard};

use outcome::{begin_span, is_header_mismatch, read, report};
use session::Route;

use crate::call::{Answer, BackChannel, Call, Caller, CallerIdentity, ClientChannel, Subscription};
use crate::catalog::{Catalog, ListKind};
use crate::config::{Config, Transport};
use crate::connection::{Ask, Connection};
use crate::failure::{Result, UpstreamErrorKind};
use crate::own_lists::OwnLists;
use crate::shared::{ServerSetupError, Shared, Surroundings};
use crate::status::{Stats, Status, UpstreamState};
use crate::topics::Topic;
use crate::{BoxFuture, Events, Upstream, supervise};

/// A configured upstream server.
pub struct Client {
    instance: Instance,
    pub(crate) shared: Arc<Shared>,
    supervisor: Mutex<Option<tokio::task::JoinHandle<()>>>,
}

impl Client {
    /// Creates the client without starting or connecting anything.
    ///
    /// # Errors
    /// The URL or a header cannot be used.
    pub fn new(config: Config, around: Surroundings) -> Result<Arc<Self>, ServerSetupError> {
        let shared = Arc::new(Shared::new(config, around)?);
        if let Some(part) = &shared.around.part {
            let server: Weak<Shared> = Arc::downgrade(&shared);
            part.add(server);
        }
        let instance = Instance::mint();
        Ok(Arc::new(Self { instance, shared, supervisor: Mutex::default() }))
    }

    /// Starts connecting in the background, unless already started, disabled or closed.
    pub fn start(&self) {
        let mut supervisor = self.supervisor.lock();
        if supervisor.is_none()
            && self.shared.config.load().enabled
            && !self.shared.closing.is_cancelled()
        {
            *supervisor = Some(spawn(supervise::supervise(Arc::clone(&self.shared))));
        }
    }

    /// Serves the lists of the client that it replaces until its own have been read.
    pub fn inherit_lists(&self, old: &Self) {
        let known = old.shared.catalog.load();
        if known.version > 0 {
            let read_at = known.read_at.unwrap_or(SystemTime::now());
            self.shared.restore(Catalog { read_at: Some(read_at), ..Catalog::clone(&known) });
        }
    }

    /// Takes over the lists and the detected era of the client that it replaces until its own are
    /// read, so that nothing disappears while the same server is reconnected.
    pub fn continue_from(&self, old: &Self) {
        let known = old.shared.catalog.load();
        if known.version > 0 {
            self.shared.publish(Catalog::clone(&known));
            let peer = old.status().peer.clone();
            self.shared.set_status(|status| status.peer.clone_from(&peer));
        }
    }

    /// Returns the channel of the server's events.
    pub fn events(&self) -> &Events {
        &self.shared.around.events
    }

    /// Returns the current configuration.
    pub fn config(&self) -> Arc<Config> {
        self.shared.config.load_full()
    }

    /// Applies a new configuration of the same server with the same transport, without
    /// reconnecting. Running calls keep their timeouts.
    pub fn reconfigure(&self, config: Config) {
        self.shared.reconfigure(config);
    }

    /// Sends the call, as [`Upstream::call`] does; with a credential that changes, once more with
    /// another if the server refuses it.
    ///
    /// # Errors
    /// As [`Upstream::call`].
    pub async fn run_call(&self, call: &Call<'_>) -> Result<Answer> {
        let authorization = self.shared.around.authorization.as_deref();
        let mut used = None;
        if let Some(authorization) = authorization {
            used = authorization.ready_header();
            if used.is_none() {
                if let Err(words) = authorization.prepare().await {
                    let failure = UpstreamErrorKind::NeedsAuth.error(words);
                    return Err(authorization.explain(failure).await);
                }
                // The server may need none.
                used = authorization.header();
            }
        }
        let answered = self.shared.run_until_closed(call).await;
        let is_refused = matches!(&answered, Err(failure)
            if failure.kind == UpstreamErrorKind::NeedsAuth);
        match authorization {
            Some(authorization) if is_refused => {
                Box::pin(self.shared.call_again(authorization, used, call, answered)).await
            }
            _ => answered,
        }
    }

    /// Waits until its running calls have ended, for at most `longest`. Used before closing, when
    /// new calls are already routed elsewhere.
    pub async fn finish_calls(&self, longest: Duration) {
        self.shared.finish_calls(longest).await;
    }
}

impl Shared {
    /// Returns the shared connection, waiting briefly if it is just being established.
    pub(crate) async fn shared_connection(&self) -> Result<Arc<Connection>> {
        match self.live.load_full() {
            Some(connection) => Ok(connection),
            None => Box::pin(self.coming_up()).await,
        }
    }

    async fn run(self: &Arc<Self>, call: &Call<'_>) -> Result<Answer> {
        self.record_use();
        if let Err(wait) = self.breaker.admit(clock::now()) {
            let words = "the circuit breaker is open after repeated failures";
            return Err(UpstreamErrorKind::Unavailable.error(words).retry_after(wait));
        }
        let admitted = guard(&self.breaker, |breaker| breaker.abandon(Instant::now()));
        let limit = call.timeout.unwrap_or_else(|| self.timeout_of(call));
        let about = (call.method(), call.target);
        let result = deadline::within(self, limit, call, |turn| async move {
            // The session's own connection is awaited before a permit is taken, so that no permit
            // idles.
            let own = self.own_connection_for(call.caller, about).await?;
            let _permit = turn.keep(self.enter(call.caller.id).await?);
            self.attempt(call, own.as_ref(), turn.channel).await
        })
        .await;
        report(ScopeGuard::into_inner(admitted), &result, &self.id);
        if let Ok(answer) = &result {
            self.silent_ends.reset();
            if self.rests_after.is_some() {
                self.record_task(answer);
            }
        }
        result
    }

    fn timeout_of(&self, call: &Call<'_>) -> Duration {
        let config = self.config.load();
        match config.tool_timeouts.get(call.target) {
            Some(own) if call.method() == Method::ToolsCall => *own,
            _ => config.call_timeout,
        }
    }

    /// Sends the call, and repeats it only if it certainly did not run or is safe to run twice.
    async fn attempt(
        self: &Arc<Self>,
        call: &Call<'_>,
        own: Option<&Route<'_>>,
        channel: Option<Arc<dyn ClientChannel>>,
    ) -> Result<Answer> {
        let connection = match own {
            Some(own) => Arc::clone(&own.connection),
            None => self.shared_connection().await?,
        };
        match self.send(&connection, call, channel.clone()).await {
            Ok(answer) if !(connection.takes_param_headers() && is_header_mismatch(&answer)) => {
                Ok(answer)
            }
            // Boxed, as are all rare paths, to keep the future of a call small.
            other => Box::pin(self.retry(other, &connection, call, channel)).await,
        }
    }

    async fn send(
        &self,
        connection: &Connection,
        call: &Call<'_>,
        channel: Option<Arc<dyn ClientChannel>>,
    ) -> Result<Answer> {
        let modern = connection.era() == Era::Modern;
        if let Some(level) = call.caller.log_level
            && !modern
        {
            Box::pin(connection.ensure_level(level)).await;
        }
        let (id, span) = begin_span(self, call, connection).unzip();
        let trace = call.trace.as_ref().map(|trace| trace.context(span.as_deref()));
        let parent = trace.as_ref().map(TraceContext::traceparent);
        let position = match (&parent, &trace) {
            (Some(parent), Some(trace)) => Some((parent.as_str(), trace.tracestate())),
            _ => None,
        };
        let capabilities = declared_for(call, modern);
        let headers = self.param_headers(connection, call);
        let params =
            headers.as_ref().map(|all| all.values(call.param(Key::Arguments).unwrap_or(b"{}")));
        let params = params.unwrap_or_default();
        let log_level = call.caller.log_level.map(crate::call::LogLevel::as_str);
        let ask = Ask {
            id,
            method: call.method(),
            target: call.method().has_name_header().then_some(call.target),
            outbound: Outbound {
                request: Some(call.request),
                target: Some(call.target),
                replaced: call.replaced,
                sender: None,
                progress: matches!(&channel, Some(client) if client.wants_progress()),
                log_level,
                trace: position,
            },
            capabilities: &capabilities,
            params: &params,
            channel,
            sink: call.sink.clone(),
            tool: call.tool.clone(),
            span,
            assertion: call.caller.assertion.clone(),
            since: call.began,
            limit: Some(call.timeout.unwrap_or_else(|| self.timeout_of(call))),
        };
        connection.ask(ask).await.and_then(|response| read(response, modern))
    }

    fn param_headers(&self, connection: &Connection, call: &Call<'_>) -> Option<Arc<ParamHeaders>> {
        if !connection.takes_param_headers() || call.method() != Method::ToolsCall {
            return None;
        }
        let catalog = self.catalog.load();
        let tools = if catalog.has_headers { catalog.items(ListKind::Tools) } else { &[] };
        tools.iter().find(|tool| &*tool.key == call.target)?.headers.clone()
    }
}

/// Returns the client capabilities to declare with a call. For a legacy client, a modern server's
/// tasks are followed by the gateway, which adds that capability.
fn declared_for<'a>(call: &'a Call<'_>, modern: bool) -> Cow<'a, [u8]> {
    let own = &call.caller.capabilities[..];
    let is_of_task = matches!(
        call.method(),
        Method::ToolsCall | Method::TasksGet | Method::TasksUpdate | Method::TasksCancel
    );
    if !modern || call.caller.era == Era::Modern || !is_of_task {
        return own.into();
    }
    capabilities::with_tasks(own)
}

// Functions that box a future are not inlined, so that their futures are compiled in this crate
// alone, optimised for speed, and not again in each crate that calls them.
impl Upstream for Client {
    fn slug(&self) -> &str {
        &self.shared.id.slug
    }

    fn organisation(&self) -> Option<&Arc<str>> {
        self.shared.id.organisation.as_ref()
    }

    fn instance(&self) -> Instance {
        self.instance
    }

    fn status(&self) -> Arc<Status> {
        self.shared.status.load_full()
    }

    fn catalog(&self) -> Arc<Catalog> {
        self.shared.catalog.load_full()
    }

    fn stats(&self) -> Option<Stats> {
        Some(self.shared.stats())
    }

    fn stderr(&self) -> Vec<String> {
        self.shared.stderr_tail()
    }

    fn calls(&self) -> &Arc<ConcurrencyLimit> {
        &self.shared.calls
    }

    fn validates_arguments(&self) -> bool {
        self.shared.config.load().validates_arguments
    }

    fn streams_answers(&self) -> bool {
        matches!(self.shared.config.load().transport, Transport::Http { .. })
    }

    fn as_client(&self) -> Option<&Client> {
        Some(self)
    }

    #[inline(never)]
    fn call<'a>(&'a self, call: Call<'a>) -> BoxFuture<'a, Result<Answer>> {
        Box::pin(async move { self.run_call(&call).await })
    }

    #[inline(never)]
    fn subscribe<'a>(
        &'a self,
        topic: &'a Topic,
        caller: &'a Caller,
        _: CallerIdentity<'a>,
    ) -> BoxFuture<'a, Result<Subscription>> {
        Box::pin(self.shared.subscribe(topic, caller))
    }

    #[inline(never)]
    fn unsubscribe<'a>(&'a self, topic: &'a Topic, given: Subscription) -> BoxFuture<'a, ()> {
        Box::pin(self.shared.unsubscribe(topic, given))
    }

    #[inline(never)]
    fn wait_for_interactive(&self, era: Era) -> BoxFuture<'_, ()> {
        Box::pin(self.shared.wait_for_interactive(era))
    }

    fn back_channel(&self) -> BackChannel {
        self.shared.back_channel()
    }

    fn touch(&self) {
        self.shared.wake_for_lists();
        if self.shared.is_out_of_date() && self.shared.live.load().is_some() {
            self.shared.stale.notify_one();
            self.shared.interactive.stale.notify_one();
        }
    }

    fn revive(&self) {
        self.shared.wake_for_call();
        if self.shared.status.load().state == UpstreamState::Failed {
            let _ = self.shared.recovery.want();
        }
    }

    fn tell_roots_changed(&self, session: u64) {
        if let Some(connection) = self.shared.sessions.find(session)
            && connection.era() == Era::Legacy
        {
            let note = write::notification(Method::RootsChanged.as_str(), b"{}");
            connection.transport.notify(note.into(), None);
        }
    }

    fn own_lists(&self, session: u64) -> Option<Arc<OwnLists>> {
        self.shared.sessions.find(session)?.receiver.own_lists.lists()
    }

    #[inline(never)]
    fn wait_for_own_lists(&self, session: u64) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            if let Some(connection) = self.shared.sessions.find(session) {
                connection.receiver.own_lists.settle().await;
            }
        })
    }

    fn forget_session(&self, session: u64) {
        self.shared.topics.forget(session);
        self.shared.sessions.forget(session);
    }

    #[inline(never)]
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

static NEXT: AtomicU64 = AtomicU64::new(1);

/// The number of a server, for the lifetime of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Instance(u64);

impl Instance {
    /// Returns a number never used before.
    pub fn mint() -> Self {
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }

    /// Returns the number as bytes for a digest.
    pub fn to_bytes(self) -> [u8; 8] {
        self.0.to_le_bytes()
    }
}
