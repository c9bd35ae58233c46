//! When a server last sent anything: a relaxed store per read, cheap enough for every read.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use lockgate_admission::clock;

/// The clock of a connection, or of all connections of a server.
#[derive(Debug)]
pub(crate) struct LastHeard {
    epoch: Instant,
    /// Milliseconds from `epoch` to the last bytes of the server.
    at_ms: AtomicU64,
    /// The clock of the connection's server.
    server: Option<Arc<LastHeard>>,
}

impl LastHeard {
    /// Creates the clock of a server: a start counts as a sign of life.
    pub(crate) fn new() -> Self {
        Self { epoch: Instant::now(), at_ms: AtomicU64::new(0), server: None }
    }

    /// Creates the clock of a connection to the server with the clock `server`.
    pub(crate) fn of_connection(server: &Arc<Self>) -> Self {
        server.record();
        Self { server: Some(Arc::clone(server)), ..Self::new() }
    }

    pub(crate) fn record(&self) {
        let now = clock::now();
        self.store(now);
        if let Some(server) = &self.server {
            server.store(now);
        }
    }

    fn store(&self, now: Instant) {
        let ms = u64::try_from(now.saturating_duration_since(self.epoch).as_millis());
        self.at_ms.store(ms.unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> Instant {
        self.epoch + Duration::from_millis(self.at_ms.load(Ordering::Relaxed))
    }
}
