//! The servers of the gateway and the catalog that is merged from them. One task rebuilds it when a server changes and
//! tells sessions and listeners, each only of what it can see.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use lockgate_policy::pin::Pins;
use lockgate_protocol::name::{Naming, Slug};
use lockgate_telemetry::{Metrics, ServerState};
use lockgate_upstream::{Event, Events, ListKind, State, Upstream};
use parking_lot::Mutex;
use tokio::sync::{Notify, broadcast};

use crate::catalog::{Catalog, Servers, View};
use crate::face::Endpoint;
use crate::gateway::Gateway;
use crate::inspect;
use crate::stage::{Setup, Standing};

/// Changes within this time are merged once.
const SETTLE: Duration = Duration::from_millis(30);
/// Events that wait for a slow reader before the oldest are lost.
const BACKLOG: usize = 1024;

/// See the module.
pub(crate) struct Hub {
    servers: Mutex<Servers>,
    catalog: ArcSwap<Catalog>,
    views: moka::sync::Cache<(u64, Endpoint, [u8; 16]), Option<Arc<View>>>,
    pub(crate) events: Events,
    /// What listeners hear: a new catalog, or a resource that changed.
    pub(crate) news: broadcast::Sender<News>,
    settled: AtomicBool,
    settling: Notify,
    wake: Notify,
}

/// What listeners hear.
#[derive(Clone, Debug)]
pub(crate) enum News {
    /// There is another catalog.
    Catalog,
    /// A resource of a server, by its own URI, has changed.
    Updated { slug: Arc<str>, uri: Arc<str> },
    /// A task of a server, by its own id, has news.
    Task { slug: Arc<str>, id: Arc<str> },
}

impl Hub {
    pub(crate) fn new(naming: Naming, metrics: &Metrics) -> Self {
        Self {
            servers: Mutex::default(),
            catalog: ArcSwap::from_pointee(Catalog::merge(Servers::new(), naming, &Pins::default(), None, metrics)),
            views: moka::sync::Cache::builder().max_capacity(4096).build(),
            events: broadcast::channel(BACKLOG).0,
            news: broadcast::channel(BACKLOG).0,
            settled: AtomicBool::new(false),
            settling: Notify::new(),
            wake: Notify::new(),
        }
    }

    /// Replaces the set of servers.
    pub(crate) fn set_servers(&self, servers: impl IntoIterator<Item = Arc<dyn Upstream>>) {
        let named = servers.into_iter().filter_map(|server| Some((Slug::new(server.slug()).ok()?, server)));
        *self.servers.lock() = named.collect();
        self.settled.store(false, Ordering::Release);
        self.wake.notify_one();
    }

    pub(crate) fn servers(&self) -> Vec<Arc<dyn Upstream>> {
        self.servers.lock().values().cloned().collect()
    }

    pub(crate) fn catalog(&self) -> Arc<Catalog> {
        self.catalog.load_full()
    }

    /// What a caller may see at an endpoint now; `None` when there is no such endpoint for it.
    pub(crate) fn view(&self, endpoint: &Endpoint, setup: &Setup, standing: &Standing) -> Option<Arc<View>> {
        let (version, mark) = (self.catalog.load().version, standing.class.mark());
        if let Some(known) = self.views.get(&(version, endpoint.clone(), mark)) {
            return known;
        }
        let catalog = self.catalog.load_full();
        let view = catalog.view(endpoint, &setup.policy, standing, setup.naming).map(Arc::new);
        if view.is_some() {
            // Names of endpoints that do not exist are not remembered: anybody can make them up.
            self.views.insert((catalog.version, endpoint.clone(), mark), view.clone());
        }
        view
    }

    /// Waits until every server is connected or has failed, or the deadline has passed. Costs nothing afterwards.
    pub(crate) async fn settle(&self, deadline: Duration) {
        if self.settled.load(Ordering::Acquire) {
            return;
        }
        let wait = async {
            loop {
                let settling = self.settling.notified();
                if self.settled.load(Ordering::Acquire) {
                    return;
                }
                settling.await;
            }
        };
        if tokio::time::timeout(deadline, wait).await.is_err() {
            // Slow servers are waited for once, by whoever comes first.
            self.settled.store(true, Ordering::Release);
        }
    }

    /// Waits until it is known and merged what the servers of a view offer to clients that can be asked things, at most
    /// for the deadline.
    pub(crate) async fn survey(&self, view: &View, deadline: Duration) {
        let mut news = self.news.subscribe();
        let known = async {
            futures_util::future::join_all(view.servers.values().map(|server| server.survey())).await;
            let behind = |(slug, server): (&Slug, &Arc<dyn Upstream>)| {
                self.catalog().seen(slug).is_some_and(|(_, merged)| merged < server.catalog().version)
            };
            while view.servers.iter().any(behind) {
                if let Err(broadcast::error::RecvError::Closed) = news.recv().await {
                    return;
                }
            }
        };
        let _ = tokio::time::timeout(deadline, known).await;
    }

    /// Merges again. Gives the old and the new catalog's versions when something changed.
    fn rebuild(&self, setup: &Setup, metrics: &Metrics) {
        let servers = self.servers.lock().clone();
        let pending = servers.values().any(|s| s.status().state == State::Pending);
        let before = self.catalog.load_full();
        let pins = &setup.config.pins;
        let after = Catalog::merge(servers, setup.naming, pins, Some(&before), metrics);
        inspect::tell(&before, &after, pins);
        self.catalog.store(Arc::new(after));
        let _ = self.news.send(News::Catalog);
        if !pending {
            self.settled.store(true, Ordering::Release);
            self.settling.notify_waiters();
        }
    }

    /// Something outside the servers changed what is visible (policy, names).
    pub(crate) fn refresh(&self) {
        self.views.invalidate_all();
        self.wake.notify_one();
    }
}

/// Follows the servers until the gateway is gone.
pub(crate) async fn follow(gateway: Arc<Gateway>) {
    let hub = &gateway.hub;
    let mut events = hub.events.subscribe();
    let mut told = gateway.setup();
    loop {
        let changed = tokio::select! {
            event = events.recv() => match event {
                Ok(Event::Changed { .. }) => true,
                Ok(Event::Updated { slug, uri, .. }) => {
                    gateway.tell_updated(&slug, &uri);
                    let _ = hub.news.send(News::Updated { slug, uri: uri.into() });
                    false
                }
                Ok(Event::Task { slug, id }) => {
                    let _ = hub.news.send(News::Task { slug, id: id.into() });
                    false
                }
                Ok(Event::Logged { slug, note }) => {
                    gateway.tell_log(&slug, &note);
                    false
                }
                Err(broadcast::error::RecvError::Lagged(_)) => true,
                Err(broadcast::error::RecvError::Closed) => return,
            },
            () = hub.wake.notified() => true,
            () = gateway.stopping.cancelled() => return,
        };
        if changed {
            tokio::time::sleep(SETTLE).await;
            let setup = gateway.setup();
            let before = hub.catalog();
            hub.rebuild(&setup, &gateway.metrics);
            report(&before, &hub.catalog(), &gateway.metrics);
            gateway.tell_sessions(&before, &told, &setup);
            told = setup;
        }
    }
}

/// Counts states, restarts and changes of servers, and forgets those that are gone.
fn report(before: &Catalog, after: &Catalog, metrics: &Metrics) {
    for slug in before.servers.keys().filter(|slug| !after.servers.contains_key(*slug)) {
        metrics.remove_server(slug);
    }
    for (slug, server) in &after.servers {
        let counters = metrics.server(slug);
        let (status, catalog) = (server.status(), server.catalog());
        counters.set_state(match status.state {
            State::Pending => ServerState::Pending,
            State::Connected => ServerState::Connected,
            State::NeedsAuth => ServerState::NeedsAuth,
            State::Failed => ServerState::Failed,
            State::Disabled => ServerState::Disabled,
        });
        let known = before.seen(slug);
        if known.is_some_and(|(restarts, _)| status.restarts > restarts) {
            counters.restarted();
        }
        if known.is_some_and(|(_, version)| version > 0 && catalog.version > version) {
            counters.list_changed();
        }
        counters.set_quarantined(after.quarantined(slug));
        metrics.keep_tools(slug, catalog.tools.iter().map(|tool| &*tool.key));
    }
}

/// The lists that look different in two views of one endpoint, to clients that can be asked things or not.
pub(crate) fn changes(before: Option<&View>, after: Option<&View>, asked: bool) -> Vec<ListKind> {
    let differs = |kind: &ListKind| match (before, after) {
        (Some(before), Some(after)) => !before.same_list(after, *kind, asked),
        (None, None) => false,
        _ => true,
    };
    ListKind::ALL.into_iter().filter(differs).collect()
}
