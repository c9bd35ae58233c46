//! The servers of the gateway and the catalog that is merged from them. One task rebuilds it when a
//! server changes and tells sessions and listeners, each only of what it can see. Nothing here
//! keeps a catalog that another one has replaced.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use lockgate_policy::pin::Pins;
use lockgate_protocol::name::{Naming, Slug};
use lockgate_protocol::revision::Era;
use lockgate_telemetry::Metrics;
use lockgate_upstream::{Announcement, Events, State, Subscription, Upstream};
use parking_lot::Mutex;
use tokio::sync::{Notify, broadcast};

use crate::catalog::{Catalog, Servers, View};
use crate::rights::CallerRights;
use crate::snapshot::Snapshot;
use crate::suspects::log_new_suspects;
use crate::transport::Endpoint;

/// Events that wait for a slow reader before the oldest are lost.
const BACKLOG: usize = 1024;

/// See the module.
pub(crate) struct Directory {
    servers: Mutex<Servers>,
    catalog: ArcSwap<Catalog>,
    pub(crate) events: Events,
    /// What listeners hear: a new catalog, or a resource that changed.
    pub(crate) changes: broadcast::Sender<Change>,
    /// The version of the catalog that has what servers offer to modern clients that can be asked.
    surveyed: AtomicU64,
    settled: AtomicBool,
    settling: Notify,
    pub(crate) wake: Notify,
}

/// What listeners hear.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    /// There is another catalog, or servers say of lists that they have changed.
    Catalog(Arc<[Announcement]>),
    /// A resource of a server, by its own URI, has changed, as was said on this connection.
    Updated { slug: Arc<str>, uri: Arc<str>, on: Subscription },
    /// A task of a server, by its own id, has news.
    Task { slug: Arc<str>, id: Arc<str> },
}

impl Directory {
    pub(crate) fn new(naming: Naming, metrics: &Metrics) -> Self {
        Self {
            servers: Mutex::default(),
            catalog: ArcSwap::from_pointee(Catalog::merge(
                Servers::new(),
                naming,
                &Pins::default(),
                None,
                metrics,
            )),
            events: broadcast::channel(BACKLOG).0,
            changes: broadcast::channel(BACKLOG).0,
            surveyed: AtomicU64::new(u64::MAX),
            settled: AtomicBool::new(false),
            settling: Notify::new(),
            wake: Notify::new(),
        }
    }

    /// Replaces the set of servers.
    pub(crate) fn set_servers(&self, servers: impl IntoIterator<Item = Arc<dyn Upstream>>) {
        let named =
            servers.into_iter().filter_map(|server| Some((Slug::new(server.slug()).ok()?, server)));
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
    pub(crate) fn view(
        &self,
        endpoint: &Endpoint,
        snapshot: &Snapshot,
        rights: &CallerRights,
    ) -> Option<Arc<View>> {
        let catalog = self.catalog.load();
        let class = rights.class.mark();
        if let Some(known) = catalog.views.get(endpoint, class) {
            return Some(known);
        }
        // Names of endpoints that do not exist are not remembered: anybody can make them up.
        let view = catalog.view(endpoint, &snapshot.policy, rights, snapshot.naming)?;
        Some(catalog.views.keep(endpoint, class, view))
    }

    /// Waits until every server is connected or has failed, or the deadline has passed. Costs
    /// nothing afterwards.
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

    /// Waits until it is known and merged what servers offer to clients of this era that can be
    /// asked things, at most for the deadline.
    pub(crate) async fn survey(&self, servers: &Servers, era: Era, deadline: Duration) {
        let mut changes = self.changes.subscribe();
        let known = async {
            let surveys = servers.values().map(|server| server.survey(era));
            futures_util::future::join_all(surveys).await;
            let behind = |(slug, server): (&Slug, &Arc<dyn Upstream>)| {
                self.catalog()
                    .merged_version(slug)
                    .is_some_and(|merged| merged < server.catalog().version)
            };
            while servers.iter().any(behind) {
                if let Err(broadcast::error::RecvError::Closed) = changes.recv().await {
                    return;
                }
            }
        };
        let _ = tokio::time::timeout(deadline, known).await;
    }

    /// The same for modern clients, once for each catalog. `true` when there was something to wait
    /// for, so that views may be others now.
    pub(crate) async fn survey_for_modern(&self, deadline: Duration) -> bool {
        let before = self.catalog.load().version;
        if self.surveyed.load(Ordering::Acquire) == before {
            return false;
        }
        let servers = self.servers.lock().clone();
        self.survey(&servers, Era::Modern, deadline).await;
        let after = self.catalog.load().version;
        self.surveyed.store(after, Ordering::Release);
        before != after
    }

    /// Merges again, if that would give another catalog, or `anyway`. Tells whether there is
    /// something to tell clients of.
    pub(crate) fn rebuild(
        &self,
        snapshot: &Snapshot,
        metrics: &Metrics,
        anyway: bool,
        announced: &Arc<[Announcement]>,
    ) -> bool {
        let servers = self.servers.lock().clone();
        let pending = servers.values().any(|s| s.status().state == State::Pending);
        let before = self.catalog.load_full();
        let changed = anyway || !before.reflects(&servers);
        if changed {
            let pins = &snapshot.config.pins;
            let after = Catalog::merge(servers, snapshot.naming, pins, Some(&before), metrics);
            log_new_suspects(&before, &after, pins);
            self.catalog.store(Arc::new(after));
        }
        let tells = changed || !announced.is_empty();
        if tells {
            let _ = self.changes.send(Change::Catalog(Arc::clone(announced)));
        }
        if !pending {
            self.settled.store(true, Ordering::Release);
            self.settling.notify_waiters();
        }
        tells
    }

    /// Something outside the servers changed what is visible (policy, names).
    pub(crate) fn refresh(&self) {
        self.catalog.load().views.clear();
        self.wake.notify_one();
    }
}
