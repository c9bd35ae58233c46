//! How far the gateway is in finding out what a legacy server offers only to clients that it can
//! ask things.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lockgate_protocol::method::Method;
use lockgate_protocol::revision::Era;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::catalog::{Catalog, Kind};
use crate::connection::Connection;

/// How long the connection may take to end.
const GRACE: Duration = Duration::from_secs(2);

/// How far the gateway is in finding out.
#[derive(Default)]
pub(crate) struct InteractiveState {
    pub(crate) wanted: AtomicBool,
    pub(crate) begin: Notify,
    /// A modern server that offers a legacy era as well, which legacy clients that can be asked
    /// get.
    pub(crate) dual: AtomicBool,
    /// It is known, or cannot be known now.
    pub(crate) settled: AtomicBool,
    pub(crate) settling: Notify,
    /// The lists have to be read again.
    pub(crate) stale: Arc<Notify>,
    pub(crate) probe: Mutex<Option<Arc<Connection>>>,
    /// The lists that everybody gets, and those that the probe got.
    pub(crate) plain: Mutex<Option<Catalog>>,
    pub(crate) full: Mutex<Option<Catalog>>,
}

impl InteractiveState {
    /// Adds what is known to the lists that everybody gets.
    pub(crate) fn complete(&self, plain: &mut Catalog) {
        *self.plain.lock() = Some(plain.clone());
        if let Some(full) = &*self.full.lock() {
            plain.add_asking(full);
            plain.asking_era = self.is_dual().then_some(Era::Legacy);
        }
    }

    /// Forgets the lists.
    pub(crate) fn forget(&self) {
        *self.plain.lock() = None;
        *self.full.lock() = None;
        self.settled.store(false, Ordering::Release);
    }

    pub(crate) fn is_dual(&self) -> bool {
        self.dual.load(Ordering::Acquire)
    }

    /// Whether the lists that the probe got have what a call is about.
    pub(crate) fn offers(&self, method: Method, target: &str) -> bool {
        let full = self.full.lock();
        let Some(full) = &*full else { return false };
        let items = match method {
            Method::ToolsCall => full.items(Kind::Tools),
            Method::PromptsGet => full.items(Kind::Prompts),
            // What can be read need not be listed.
            Method::ResourcesRead | Method::Subscribe | Method::Unsubscribe => {
                return full.offers.resources;
            }
            _ => return false,
        };
        items.iter().any(|item| &*item.key == target)
    }

    pub(crate) fn settle(&self) {
        self.settled.store(true, Ordering::Release);
        self.settling.notify_waiters();
    }

    /// Ends the connection, if there is one.
    pub(crate) async fn end(&self) {
        let probe = self.probe.lock().take();
        if let Some(probe) = probe {
            probe.close(GRACE).await;
        }
    }
}
