//! The gateway's state: configuration snapshot, directory of servers, streams, byte budget, metrics
//! and audit trail. The steps of a request are in the modules above.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use arc_swap::ArcSwap;
use lockgate_admission::budget::Budget;
use lockgate_admission::{CpuPool, Turn};
use lockgate_authn::Principal;
use lockgate_protocol::jsonrpc::Request;
use lockgate_protocol::revision::Revision;
use lockgate_protocol::sealed::Purpose;
use lockgate_telemetry::audit::{ChangePlace, RecordError, Trail};
use lockgate_telemetry::{Ending, KeySet, Metrics, Network, OperationLabels, Tracer};
use lockgate_text::date;
use lockgate_upstream::{BoxFuture, BreakerState, ServerId, SingleClient, Upstream};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::activity::Activity;
use crate::approvals::Approvals;
use crate::catalog::layers::AgentServers;
use crate::catalog::organisation_of;
use crate::context::RequestContext;
use crate::directory::{Change, Directory, Source};
use crate::flagged_tools::{self, FlaggedTool, PinChange};
use crate::modern_clients::ModernClients;
use crate::parked::ParkedCalls;
use crate::peers::Peers;
use crate::quota::{Exhausted, OpenStream, Quotas, Streams};
use crate::rescue::RequestError;
use crate::snapshot::Snapshot;
use crate::transport::Text;
use crate::usage::Usage;

/// Subscriptions in progress per principal, over all of its `subscriptions/listen` streams.
pub const MAX_SUBSCRIBING: usize = 1024;

/// Lifetime of a list cursor outside MCP, in seconds.
const CURSOR_LIFE: u64 = 24 * 60 * 60;

/// The client edge for sessions, as the gateway notifies it. Nothing is notified without one.
pub trait SessionEdge: Send + Sync {
    /// Notifies the sessions of a change of a source, under the rules of this snapshot.
    fn notify(self: Arc<Self>, source: &Source, change: &Change, snapshot: &Snapshot);

    /// Forwards a server's log message without a request.
    fn log(&self, server: &ServerId, note: &Request);

    /// Ends sessions without a request for `idle`, and those of expired keys.
    fn sweep(&self, idle: Duration);

    /// Returns the number of sessions of an organisation's members, or of all.
    fn count(&self, organisation: Option<&str>) -> usize;
}

/// Authorizes a request, sends it to its server and returns the response that the caller would get.
pub(crate) type Forward =
    for<'a> fn(&'a Gateway, Box<RequestContext>) -> BoxFuture<'a, Result<Text, RequestError>>;

/// The state that all requests share.
pub struct Gateway {
    pub(crate) snapshot: ArcSwap<Snapshot>,
    /// The servers and their catalogs.
    pub directory: Directory,
    pub(crate) session_edge: OnceLock<Weak<dyn SessionEdge>>,
    pub(crate) modern_clients: Arc<ModernClients>,
    /// The client of a gateway that serves a single client.
    pub single_client: Option<Arc<SingleClient>>,
    pub(crate) parked: Arc<ParkedCalls>,
    /// The connection to the other gateways with the same secret, set at most once.
    pub peers: OnceLock<Arc<dyn Peers>>,
    /// Cancelled on shutdown: streams end, and new streams are refused.
    pub stopping: CancellationToken,
    /// Set at the end of the shutdown period: running calls are answered with an error.
    pub(crate) ending: watch::Sender<bool>,
    /// Open event streams.
    pub streams: Arc<Streams>,
    /// Subscriptions in progress at servers, also of clients that have disconnected.
    pub subscribing: Arc<Quotas>,
    pub approvals: Approvals,
    pub activity: Activity,
    /// Calls and denials that were not taken yet.
    pub usage: Usage,
    pub(crate) budget: Arc<Budget>,
    /// Thread pool for work that would block request threads.
    pub(crate) cpu_pool: Arc<CpuPool>,
    pub metrics: Arc<Metrics>,
    pub(crate) tracer: Option<Tracer>,
    pub(crate) audit: Option<Trail>,
    /// `dispatch::forward_nested`, as a value because `dispatch` imports this module.
    pub(crate) forward: Forward,
}

impl Gateway {
    /// Replaces an organisation's servers and agents. An organisation without either is removed.
    pub fn set_organisation(
        &self,
        name: &str,
        servers: Vec<Arc<dyn Upstream>>,
        agents: Vec<AgentServers>,
    ) {
        let naming = self.snapshot.load().naming;
        let rules = (naming, &*self.metrics);
        self.directory.set_organisation(name, servers, agents, rules);
    }

    /// Waits until an organisation's current servers are merged, or the deadline passes.
    pub async fn settle_changes(&self, organisation: &str, deadline: Duration) {
        let mut changes = self.directory.changes.subscribe(organisation);
        let merged = async {
            while let Some(own) = self.directory.organisation(organisation) {
                if own.is_merged() {
                    return;
                }
                if let Err(RecvError::Closed) = changes.recv().await {
                    return;
                }
            }
        };
        let _ = tokio::time::timeout(deadline, merged).await;
    }

    /// Returns whether the operator has a server with this slug, which then takes precedence.
    pub fn has_shared(&self, slug: &str) -> bool {
        self.directory.find_server(&ServerId::shared(slug)).is_some()
    }

    /// Returns the operator's servers, by slug.
    pub fn servers(&self) -> Vec<Arc<dyn Upstream>> {
        self.directory.servers_of(None)
    }

    /// Returns tools of the operator or an organisation that should be reviewed: new, changed, or
    /// with suspicious text.
    pub fn flagged_tools(&self, organisation: Option<&str>) -> Vec<FlaggedTool> {
        let catalog = self.directory.catalog_of(organisation);
        catalog.map_or_else(Vec::new, |catalog| flagged_tools::flagged_tools(&catalog))
    }

    /// Returns tools of the operator or an organisation that differ from their approved
    /// definitions, or `None` without a lock file.
    pub fn pin_changes(&self, organisation: Option<&str>) -> Option<Vec<PinChange>> {
        let snapshot = self.snapshot();
        let lock = snapshot.config.pins.lock.as_ref()?;
        let catalog = self.directory.catalog_of(organisation);
        Some(catalog.map_or_else(Vec::new, |catalog| flagged_tools::pin_changes(&catalog, lock)))
    }

    /// Returns the budget of bytes in flight.
    pub fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    /// Returns the thread pool for large messages.
    pub fn cpu_pool(&self) -> &Arc<CpuPool> {
        &self.cpu_pool
    }

    /// Waits for the caller's turn on the thread pool.
    ///
    /// # Errors
    /// The queue is full.
    pub(crate) async fn wait_for_turn(&self, caller: &Principal) -> Result<Turn, RequestError> {
        self.cpu_pool
            .turn(caller.caller_id())
            .await
            .map_err(|_| RequestError::too_many_judgements(self.cpu_pool.limit().expected_wait()))
    }

    /// Handles a request of the gateway or of a built-in server on behalf of its caller, as the
    /// caller's own requests are handled.
    pub fn forward(
        &self,
        context: Box<RequestContext>,
    ) -> BoxFuture<'_, Result<Text, RequestError>> {
        (self.forward)(self, context)
    }

    /// Waits until each of the operator's servers has connected or failed, or the deadline passes.
    pub async fn settle(&self) {
        let deadline = self.snapshot.load().config.limits.discovery_deadline;
        self.directory.settle_shared(deadline).await;
    }

    /// Ends all streams and refuses new streams.
    pub fn stop(&self) {
        self.stopping.cancel();
    }

    /// Answers all running calls with an error at once, at the end of the shutdown period.
    pub fn end(&self) {
        self.ending.send_replace(true);
    }

    /// Reserves a slot for a caller's event stream.
    ///
    /// # Errors
    /// The limit of the caller or of its organisation is reached.
    pub fn stream(&self, caller: &Principal) -> Result<OpenStream, Exhausted> {
        let config = &self.snapshot().config;
        let own = config.limits.streams_per_principal;
        self.streams.open(caller, own, config.connections_per_address)
    }

    /// Reserves room in the audit trail for a change; `None` without a trail.
    ///
    /// # Errors
    /// [`RecordError`] if the operator requires records, and there is no room.
    pub fn reserve_change(&self) -> Result<Option<ChangePlace>, RecordError> {
        self.audit.as_ref().map(|trail| trail.reserve_change()).transpose()
    }

    /// Seals a position in a list outside MCP as a cursor, bound to list and caller. Returns `None`
    /// if it cannot be sealed.
    pub fn seal_cursor(&self, list: &str, caller: &Principal, place: u64) -> Option<String> {
        let sealer = &self.snapshot().sealer;
        let bind = [list.as_bytes(), &caller.key().to_be_bytes()];
        let expires = date::now() + CURSOR_LIFE;
        sealer.seal(Purpose::Cursor, &bind, expires, &place.to_be_bytes()).ok()
    }

    /// Returns the position in a cursor of this list and caller.
    pub fn open_cursor(&self, list: &str, caller: &Principal, cursor: &str) -> Option<u64> {
        let sealer = &self.snapshot().sealer;
        let bind = [list.as_bytes(), &caller.key().to_be_bytes()];
        let opened = sealer.open(Purpose::Cursor, &bind, date::now(), cursor);
        Some(u64::from_be_bytes(opened.ok()?.try_into().ok()?))
    }

    /// Returns the current configuration.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshot.load_full()
    }

    /// Sets the client edge for sessions, once. Sessions of a second edge would outlive their keys.
    pub fn set_session_edge(&self, edge: Weak<dyn SessionEdge>) {
        let set = self.session_edge.set(edge);
        debug_assert!(set.is_ok(), "a gateway has one edge for sessions");
    }

    pub(crate) fn session_edge(&self) -> Option<Arc<dyn SessionEdge>> {
        self.session_edge.get()?.upgrade()
    }

    /// Returns the address at which other gateways reach this gateway.
    pub fn own_address(&self) -> Option<SocketAddr> {
        Some(self.peers.get()?.address())
    }

    /// Exports ended spans, for at most three seconds.
    pub async fn flush_spans(&self) {
        if let Some(tracer) = &self.tracer {
            tracer.flush().await;
        }
    }

    /// Records that a principal has used a server.
    pub fn record_caller(&self, caller: &Principal, server: &dyn Upstream) {
        let caller = caller.key();
        match server.organisation() {
            None => self.directory.shared.single_principal.record(caller),
            Some(name) => {
                if let Some(own) = self.directory.organisation(name) {
                    own.single_principal.record(caller);
                }
            }
        }
    }

    /// Returns whether this principal, by its key, is the only one that has used the servers of a
    /// server's source.
    pub fn is_only_caller(&self, caller: u64, server: &ServerId) -> bool {
        let source = self.directory.source(server.organisation.as_deref());
        source.is_some_and(|source| source.single_principal.is(caller))
    }

    /// Records the duration of an ended session.
    pub fn measure_session(&self, revision: Revision, duration: Duration) {
        let labels = OperationLabels {
            method: "",
            revision: Some(revision.as_str()),
            network: if self.single_client.is_some() { Network::Pipe } else { Network::Http(None) },
            ending: Ending::Success,
        };
        self.metrics.session_ended(labels, duration);
    }

    /// Updates the metrics' gauges.
    pub fn observe(&self) {
        let gauges = self.metrics.gauges();
        gauges.sessions.set(self.count_sessions(None));
        gauges.streams.set(self.streams.len());
        gauges.parked.set(self.parked.len());
        gauges.approvals.set(self.approvals.len());
        self.observe_key_sets();
        let budget = self.budget();
        gauges.bytes_in_flight.set(budget.used());
        gauges.bytes_limit.set(budget.limit());
        gauges.refused_for_memory.set(budget.refused());
        let mut running = self.cpu_pool.limit().running();
        let mut waiting = self.cpu_pool.limit().waiting();
        let own = self.directory.own_servers();
        for server in self.servers().into_iter().chain(own) {
            running += server.calls().running();
            waiting += server.calls().waiting();
            if let Some(stats) = server.stats() {
                let metrics = self.metrics.server(organisation_of(&*server), server.slug());
                let load = metrics.load();
                let limits = &stats.config.limits;
                let is_paused = !matches!(stats.breaker, BreakerState::Closed { .. });
                load.running.set(stats.running);
                load.concurrency.set(limits.concurrency);
                load.waiting.set(stats.waiting);
                load.queue.set(limits.queue);
                load.timeout.set(stats.config.call_timeout.as_secs());
                load.is_paused.set(u64::from(is_paused));
            }
        }
        gauges.in_flight.set(running);
        gauges.queued.set(waiting);
    }

    /// Returns the token issuers without loaded keys.
    pub fn issuers_without_keys(&self) -> Vec<String> {
        let sets = self.snapshot.load().authenticator.key_sets().into_iter();
        let issuers = sets.filter(|set| set.keys == 0).map(|set| set.issuer);
        issuers.collect()
    }

    fn observe_key_sets(&self) {
        let sets = self.snapshot.load().authenticator.key_sets().into_iter();
        let sets = sets.map(|set| KeySet { issuer: set.issuer, keys: set.keys, age: set.age });
        self.metrics.set_key_sets(sets.collect());
    }
}
