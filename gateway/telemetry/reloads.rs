//! Which configurations were taken over, and when the last one was.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{SystemTime, UNIX_EPOCH};

/// See the module.
pub(crate) struct Reloads {
    /// Those that failed, and those that did not.
    outcomes: [AtomicU64; 2],
    has_failed: AtomicBool,
    /// Unix seconds.
    last_success: AtomicU64,
}

/// With the configuration that the process begins with.
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

    /// Whether the files say what is in force.
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
