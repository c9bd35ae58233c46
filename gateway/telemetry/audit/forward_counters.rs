//! How forwarding to one receiver does, for metrics. Nothing here locks.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// Counted by who forwards.
#[derive(Debug, Default)]
pub struct ForwardCounters {
    taken: AtomicU64,
    lost: AtomicU64,
    sent: AtomicU64,
    failing: AtomicBool,
}

impl ForwardCounters {
    /// So many more records were taken by the receiver.
    pub fn took(&self, records: u64) {
        self.taken.fetch_add(records, Relaxed);
    }

    /// So many more were gone before they could be sent.
    pub fn lost(&self, records: u64) {
        self.lost.fetch_add(records, Relaxed);
    }

    /// The last record that was sent, and need not be sent again as far as is known.
    pub fn set_sent(&self, record: u64) {
        self.sent.store(record, Relaxed);
    }

    /// Whether the receiver takes nothing.
    pub fn set_failing(&self, failing: bool) {
        self.failing.store(failing, Relaxed);
    }

    pub(crate) fn taken(&self) -> u64 {
        self.taken.load(Relaxed)
    }

    pub(crate) fn lost_ever(&self) -> u64 {
        self.lost.load(Relaxed)
    }

    /// Records that wait, of a trail that ends with this one.
    pub fn behind(&self, last: u64) -> u64 {
        last.saturating_sub(self.sent.load(Relaxed))
    }

    pub(crate) fn is_failing(&self) -> bool {
        self.failing.load(Relaxed)
    }
}
