//! How far the gateway is in finding out what a legacy server offers only to clients that it can
//! ask things.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::catalog::Catalog;
use crate::connection::Connection;

/// How long the connection may take to end.
const GRACE: Duration = Duration::from_secs(2);

/// How far the gateway is in finding out.
#[derive(Default)]
pub(crate) struct Survey {
    pub(crate) wanted: AtomicBool,
    pub(crate) begin: Notify,
    /// It is known, or cannot be known now.
    pub(crate) settled: AtomicBool,
    pub(crate) settling: Notify,
    /// The lists have to be read again.
    pub(crate) stale: Arc<Notify>,
    pub(crate) scout: Mutex<Option<Arc<Connection>>>,
    /// The lists that everybody gets, and those that the scout got.
    pub(crate) plain: Mutex<Option<Catalog>>,
    pub(crate) full: Mutex<Option<Catalog>>,
}

impl Survey {
    /// Adds what is known to the lists that everybody gets.
    pub(crate) fn complete(&self, plain: &mut Catalog) {
        *self.plain.lock() = Some(plain.clone());
        if let Some(full) = &*self.full.lock() {
            plain.add_asking(full);
        }
    }

    pub(crate) fn settle(&self) {
        self.settled.store(true, Ordering::Release);
        self.settling.notify_waiters();
    }

    /// Ends the connection, if there is one.
    pub(crate) async fn end(&self) {
        let scout = self.scout.lock().take();
        if let Some(scout) = scout {
            scout.close(GRACE).await;
        }
    }
}
