//! When a server last said anything at all: one relaxed store for each read, so that it can be kept
//! for every byte.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The clock of one connection, or of all connections of one server.
#[derive(Debug)]
pub(crate) struct LastHeard {
    epoch: Instant,
    /// Milliseconds from `epoch` to the last bytes of the server.
    at_ms: AtomicU64,
    /// The clock of the server whose connection this one belongs to.
    server: Option<Arc<LastHeard>>,
}

impl LastHeard {
    /// The clock of a server: a start counts as a sign of life.
    pub(crate) fn new() -> Self {
        Self { epoch: Instant::now(), at_ms: AtomicU64::new(0), server: None }
    }

    /// The clock of one connection to the server that has the clock `server`.
    pub(crate) fn of_connection(server: &Arc<Self>) -> Self {
        server.record();
        Self { server: Some(Arc::clone(server)), ..Self::new() }
    }

    /// Bytes have come in.
    pub(crate) fn record(&self) {
        let now = Instant::now();
        self.store(now);
        if let Some(server) = &self.server {
            server.store(now);
        }
    }

    fn store(&self, now: Instant) {
        let ms = u64::try_from(now.saturating_duration_since(self.epoch).as_millis());
        self.at_ms.store(ms.unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// When bytes came in last.
    pub(crate) fn get(&self) -> Instant {
        self.epoch + Duration::from_millis(self.at_ms.load(Ordering::Relaxed))
    }
}
