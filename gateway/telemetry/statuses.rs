//! HTTP responses by status. Every status has its counter from the start.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// 100 to 999, as HTTP has them.
const FIRST: usize = 100;
const MANY: usize = 900;

/// See the module.
pub(crate) struct Statuses([AtomicU64; MANY]);

impl Default for Statuses {
    fn default() -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}

impl Statuses {
    pub(crate) fn count(&self, status: u16) {
        if let Some(counter) = self.0.get(usize::from(status).wrapping_sub(FIRST)) {
            counter.fetch_add(1, Relaxed);
        }
    }

    /// Those that were sent.
    pub(crate) fn each(&self, mut see: impl FnMut(usize, u64)) {
        for (at, counter) in self.0.iter().enumerate() {
            let count = counter.load(Relaxed);
            if count > 0 {
                see(FIRST + at, count);
            }
        }
    }
}
