//! The configuration of one server as it is now. What does not change how the server is reached may
//! be replaced while it is connected; calls read what they need of it and hold nothing.

use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use tokio::sync::Notify;

use crate::config::{Config, Health};

/// See the module.
pub(crate) struct Settings {
    current: ArcSwap<Config>,
    changed: Notify,
}

impl Settings {
    pub(crate) fn new(config: Config) -> Arc<Self> {
        Arc::new(Self { current: ArcSwap::from_pointee(config), changed: Notify::new() })
    }

    /// As they are now; not to be held for long.
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

    /// Waits until signs of life are asked for in another way.
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
