//! Waits for items that servers offer only to clients that can be asked questions.

use std::sync::atomic::Ordering;
use std::time::Duration;

use lockgate_protocol::revision::Era;
use lockgate_upstream::Upstream;
use tokio::sync::broadcast;

use super::{Directory, ServerSource};
use crate::catalog::Servers;

impl Directory {
    /// Waits until the servers' offers to clients of this era that can be asked questions are known
    /// and merged, or the deadline passes. `servers` are those in the view of the organisation's
    /// member.
    pub async fn wait_for_interactive(
        &self,
        organisation: &str,
        servers: &Servers,
        era: Era,
        deadline: Duration,
    ) {
        let mut changes = self.changes.subscribe(organisation);
        let known = async {
            let waits: Vec<_> =
                servers.values().map(|server| server.wait_for_interactive(era)).collect();
            futures_util::future::join_all(waits).await;
            while servers.values().any(|server| self.is_behind(&**server)) {
                if let Err(broadcast::error::RecvError::Closed) = changes.recv().await {
                    return;
                }
            }
        };
        let _ = tokio::time::timeout(deadline, known).await;
    }

    /// Returns whether a server has lists that are not merged yet.
    fn is_behind(&self, server: &dyn Upstream) -> bool {
        let catalog = self.catalog_of(server.organisation().map(|name| &**name));
        let Some(catalog) = catalog else { return false };
        let merged = catalog.merged_version(server.slug());
        matches!(merged, Some(merged) if merged < server.catalog().version)
    }

    /// Waits likewise for modern clients, once for each catalog. Returns whether a catalog changed
    /// during the wait, so that views have to be looked up again.
    pub(crate) async fn wait_for_interactive_modern(
        &self,
        organisation: &str,
        deadline: Duration,
    ) -> bool {
        let own = self.organisation(organisation);
        let shared = self.wait_for_interactive_of(organisation, &self.shared, deadline);
        match own {
            None => shared.await,
            Some(own) => {
                let own = self.wait_for_interactive_of(organisation, &own, deadline);
                let (shared, own) = tokio::join!(shared, own);
                shared || own
            }
        }
    }

    async fn wait_for_interactive_of(
        &self,
        organisation: &str,
        source: &ServerSource,
        deadline: Duration,
    ) -> bool {
        let set = &source.set;
        let before = source.state.load().catalog.version;
        if set.interactive_known.load(Ordering::Acquire) == before + 1 {
            return false;
        }
        // Boxed because it is rare, to keep the future of a request small.
        Box::pin(self.wait_for_interactive(organisation, &set.get(), Era::Modern, deadline)).await;
        let after = source.state.load().catalog.version;
        set.interactive_known.store(after + 1, Ordering::Release);
        before != after
    }
}
