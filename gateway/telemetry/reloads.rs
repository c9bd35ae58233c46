//! Counts of configuration reloads, and the time of the last success.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{SystemTime, UNIX_EPOCH};

pub(crate) struct Reloads {
    /// Failed and successful reloads.
    outcomes: [AtomicU64; 2],
    has_failed: AtomicBool,
    /// Unix seconds.
    last_success: AtomicU64,
}

/// The process starts with a valid configuration.
impl Default for Reloads {
    fn default() -> Self {
        Self {
            outcomes: Default::default(),
            has_failed: AtomicBool::new(false),
            last_success: AtomicU64::new(now()),
        }
    }
}

impl Reloads {
    pub(crate) fn count(&self, is_success: bool) {
        self.outcomes[usize::from(is_success)].fetch_add(1, Relaxed);
        self.has_failed.store(!is_success, Relaxed);
        if is_success {
            self.last_success.store(now(), Relaxed);
        }
    }

    pub(crate) fn of(&self, is_success: bool) -> u64 {
        self.outcomes[usize::from(is_success)].load(Relaxed)
    }

    /// Returns whether the files match the configuration in force.
    pub(crate) fn is_current(&self) -> bool {
        !self.has_failed.load(Relaxed)
    }

    pub(crate) fn last_success(&self) -> u64 {
        self.last_success.load(Relaxed)
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
