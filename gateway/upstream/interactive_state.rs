//! The state of reading the items that a legacy server offers only to interactive clients.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use lockgate_protocol::method::Method;
use lockgate_protocol::revision::Era;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use crate::catalog::{Catalog, ListKind};
use crate::connection::{CLOSE_GRACE_PERIOD, Connection};

/// The progress and results of the probe connection.
#[derive(Default)]
pub(crate) struct InteractiveState {
    /// Whether a client needs the items.
    pub(crate) wanted: watch::Sender<bool>,
    /// Whether the server is modern but also speaks legacy, which interactive legacy clients use.
    pub(crate) dual: AtomicBool,
    /// Whether the items were read, or cannot be read now.
    pub(crate) settled: watch::Sender<bool>,
    /// Requests another read of the lists.
    pub(crate) stale: Arc<Notify>,
    pub(crate) probe: Mutex<Option<Arc<Connection>>>,
    /// The lists for all clients, and those of the probe connection.
    pub(crate) plain: Mutex<Option<Catalog>>,
    pub(crate) full: Mutex<Option<Catalog>>,
}

impl InteractiveState {
    /// Adds the items of the probe connection to the lists for all clients.
    pub(crate) fn complete(&self, plain: &mut Catalog) {
        *self.plain.lock() = Some(plain.clone());
        if let Some(full) = &*self.full.lock() {
            plain.add_asking(full);
            plain.asking_era = self.is_dual().then_some(Era::Legacy);
        }
    }

    pub(crate) fn forget(&self) {
        *self.plain.lock() = None;
        *self.full.lock() = None;
        self.settled.send_replace(false);
    }

    pub(crate) fn is_dual(&self) -> bool {
        self.dual.load(Ordering::Acquire)
    }

    /// Reports whether the probe's lists contain the target of a call.
    pub(crate) fn offers(&self, method: Method, target: &str) -> bool {
        let full = self.full.lock();
        let Some(full) = &*full else { return false };
        match ListKind::of_call(method) {
            Some(kind) => full.items(kind).iter().any(|item| &*item.key == target),
            // Readable resources need not be listed.
            None => {
                let methods = [Method::ResourcesRead, Method::Subscribe, Method::Unsubscribe];
                full.offers.resources && methods.contains(&method)
            }
        }
    }

    pub(crate) fn settle(&self) {
        self.settled.send_replace(true);
    }

    pub(crate) async fn end(&self) {
        let probe = self.probe.lock().take();
        if let Some(probe) = probe {
            probe.close(CLOSE_GRACE_PERIOD).await;
        }
    }
}
