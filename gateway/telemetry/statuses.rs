//! HTTP responses by status. Every status has a counter from the start.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The range of HTTP statuses, 100 to 999.
const FIRST_STATUS: usize = 100;
const STATUS_COUNT: usize = 900;

pub(crate) struct Statuses([AtomicU64; STATUS_COUNT]);

impl Default for Statuses {
    fn default() -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}

impl Statuses {
    pub(crate) fn count(&self, status: u16) {
        if let Some(counter) = self.0.get(usize::from(status).wrapping_sub(FIRST_STATUS)) {
            counter.fetch_add(1, Relaxed);
        }
    }

    /// Passes all counts above zero to `see`.
    pub(crate) fn each(&self, mut see: impl FnMut(usize, u64)) {
        for (at, counter) in self.0.iter().enumerate() {
            let count = counter.load(Relaxed);
            if count > 0 {
                see(FIRST_STATUS + at, count);
            }
        }
    }
}
