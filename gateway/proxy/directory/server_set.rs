//! The servers of a source: the operator's, or those of an organisation. Tracks whether all have
//! come up, and whether their offers to clients that can be asked questions are known.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use lockgate_protocol::name::Slug;
use lockgate_upstream::{Instance, ServerId, Upstream, UpstreamState};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::catalog::{Catalog, Servers};

pub(crate) struct ServerSet {
    servers: Mutex<Servers>,
    /// Servers with merged lists, with a failure, or with a request that has waited in vain.
    known: Mutex<HashSet<Instance>>,
    /// Catalog version with the offers to modern clients that can be asked questions.
    pub(super) interactive_known: AtomicU64,
    /// Whether all servers are in `known`.
    settled: AtomicBool,
    settling: Notify,
}

impl Default for ServerSet {
    fn default() -> Self {
        Self {
            servers: Mutex::default(),
            known: Mutex::default(),
            interactive_known: AtomicU64::new(u64::MAX),
            settled: AtomicBool::new(false),
            settling: Notify::new(),
        }
    }
}

impl ServerSet {
    /// Replaces the servers. Returns those that were added, removed or replaced.
    pub(super) fn replace(
        &self,
        servers: impl IntoIterator<Item = Arc<dyn Upstream>>,
    ) -> HashSet<ServerId> {
        let mut named = Servers::new();
        for server in servers {
            if let Ok(slug) = Slug::new(server.slug()) {
                named.insert(slug, server);
            }
        }
        let instances: HashSet<_> = named.values().map(|server| server.instance()).collect();
        let mut known = self.known.lock();
        known.retain(|instance| instances.contains(instance));
        self.settled.store(known.len() == instances.len(), Ordering::Release);
        drop(known);
        let before = std::mem::replace(&mut *self.servers.lock(), named.clone());
        let ended: HashSet<_> = before.values().map(|server| server.instance()).collect();
        let mut changed = HashSet::new();
        for server in before.values().chain(named.values()) {
            let instance = server.instance();
            if ended.contains(&instance) != instances.contains(&instance) {
                changed.insert(ServerId::of(&**server));
            }
        }
        changed
    }

    pub(super) fn get(&self) -> Servers {
        self.servers.lock().clone()
    }

    /// Waits until each server that the request may concern is known, or the deadline passes.
    /// Resting servers are connected for that. Returns immediately once all servers are known.
    pub(super) async fn settle(
        &self,
        is_about: impl Fn(&dyn Upstream) -> bool,
        deadline: Duration,
    ) {
        if !self.settled.load(Ordering::Acquire) {
            // Boxed because it is rare, to keep the future of a request small.
            Box::pin(self.wait_until_known(is_about, deadline)).await;
        }
    }

    async fn wait_until_known(&self, is_about: impl Fn(&dyn Upstream) -> bool, deadline: Duration) {
        let mut wanted = Vec::new();
        {
            let known = self.known.lock();
            for server in self.servers.lock().values() {
                if !known.contains(&server.instance()) && is_about(&**server) {
                    wanted.push(Arc::clone(server));
                }
            }
        }
        for server in &wanted {
            if is_unknown(&**server) {
                server.touch();
            }
        }
        let wait = async {
            loop {
                let settling = self.settling.notified();
                if self.are_known(&wanted) {
                    return;
                }
                settling.await;
            }
        };
        if tokio::time::timeout(deadline, wait).await.is_err() {
            // Only the first request waits for a slow server.
            self.record_known(wanted.iter());
        }
    }

    fn are_known(&self, servers: &[Arc<dyn Upstream>]) -> bool {
        let known = self.known.lock();
        servers.iter().all(|server| known.contains(&server.instance()))
    }

    fn record_known<'a>(&self, servers: impl Iterator<Item = &'a Arc<dyn Upstream>>) {
        let mut known = self.known.lock();
        known.extend(servers.into_iter().map(|server| server.instance()));
        let servers = self.servers.lock();
        let is_settled = servers.values().all(|server| known.contains(&server.instance()));
        self.settled.store(is_settled, Ordering::Release);
    }

    /// Records the servers that this catalog includes as known. Lists that arrived during the merge
    /// are left to the next merge.
    pub(super) fn merged(&self, servers: &Servers, catalog: &Catalog) {
        let mut known = Vec::new();
        for (slug, server) in servers {
            // In this order: lists that arrive between the two checks change the version.
            let is_unknown = is_unknown(&**server);
            let version = server.catalog().version;
            let is_late = matches!(catalog.merged_version(slug), Some(merged) if merged != version);
            if !is_late && !is_unknown {
                known.push(server);
            } else if version == 0 && server.status().state == UpstreamState::Resting {
                // The lists were dropped, and the server is not connecting.
                self.known.lock().remove(&server.instance());
            }
        }
        self.record_known(known.into_iter());
        self.settling.notify_waiters();
    }
}

/// Returns whether a server has neither lists nor a failure to report.
fn is_unknown(server: &dyn Upstream) -> bool {
    let status = server.status();
    let is_coming = match status.state {
        UpstreamState::Pending => true,
        UpstreamState::Resting => status.trouble.is_none(),
        _ => false,
    };
    is_coming && server.catalog().version == 0
}
