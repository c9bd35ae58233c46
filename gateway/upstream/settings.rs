//! The current configuration of a server. Settings that do not affect the connection are replaced
//! while it is open; calls read them when needed.

use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use tokio::sync::Notify;

use crate::config::{Config, Health};

pub(crate) struct Settings {
    current: ArcSwap<Config>,
    changed: Notify,
}

impl Settings {
    pub(crate) fn new(config: Config) -> Arc<Self> {
        Arc::new(Self { current: ArcSwap::from_pointee(config), changed: Notify::new() })
    }

    /// Returns the current configuration; the guard should not be held for long.
    pub(crate) fn load(&self) -> Guard<Arc<Config>> {
        self.current.load()
    }

    pub(crate) fn load_full(&self) -> Arc<Config> {
        self.current.load_full()
    }

    pub(crate) fn replace(&self, config: Config) {
        self.current.store(Arc::new(config));
        self.changed.notify_waiters();
    }

    /// Waits until the configuration of health checks differs from `from`.
    pub(crate) async fn health_changed(&self, from: Option<&Health>) {
        loop {
            let changed = self.changed.notified();
            if self.load().health.as_ref() != from {
                return;
            }
            changed.await;
        }
    }
}
