//! Lock-free counters of forwarding to a receiver, for metrics.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// Counters updated by the forwarder.
#[derive(Debug, Default)]
pub struct ForwardCounters {
    taken: AtomicU64,
    lost: AtomicU64,
    sent: AtomicU64,
    failing: AtomicBool,
}

impl ForwardCounters {
    /// Adds records that the receiver has accepted.
    pub fn took(&self, records: u64) {
        self.taken.fetch_add(records, Relaxed);
    }

    /// Adds records that were removed before they could be sent.
    pub fn lost(&self, records: u64) {
        self.lost.fetch_add(records, Relaxed);
    }

    /// Sets the last record that was sent and needs no retry, as far as known.
    pub fn set_sent(&self, record: u64) {
        self.sent.store(record, Relaxed);
    }

    /// Sets whether the receiver accepts no records.
    pub fn set_failing(&self, failing: bool) {
        self.failing.store(failing, Relaxed);
    }

    pub(crate) fn taken(&self) -> u64 {
        self.taken.load(Relaxed)
    }

    pub(crate) fn lost_ever(&self) -> u64 {
        self.lost.load(Relaxed)
    }

    /// Returns the number of pending records in a trail that ends with record `last`.
    pub fn behind(&self, last: u64) -> u64 {
        last.saturating_sub(self.sent.load(Relaxed))
    }

    pub(crate) fn is_failing(&self) -> bool {
        self.failing.load(Relaxed)
    }
}
