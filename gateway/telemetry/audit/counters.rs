//! Counters of the trail and of its receivers, for metrics. Lock-free on the path of a record.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;

/// Counters updated by the writer, and by callers after the loss of a record.
#[derive(Debug, Default)]
pub struct AuditCounters {
    written: AtomicU64,
    dropped: AtomicU64,
    failing: AtomicBool,
    /// Number of the last record before this process.
    begun: AtomicU64,
    forwards: Mutex<Vec<(&'static str, Arc<ForwardCounters>)>>,
}

impl AuditCounters {
    /// Returns the number of written records.
    pub fn written(&self) -> u64 {
        self.written.load(Relaxed)
    }

    /// Returns the number of lost records.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Relaxed)
    }

    /// Returns whether writing currently fails.
    pub fn is_failing(&self) -> bool {
        self.failing.load(Relaxed)
    }

    /// Returns the number of the last record before those of this process.
    pub fn begun(&self) -> u64 {
        self.begun.load(Relaxed)
    }

    /// Returns the number of the last written record.
    pub fn last(&self) -> u64 {
        self.begun() + self.written()
    }

    /// Creates the counters of a receiver that records are forwarded to.
    pub fn forward(&self, to: &'static str) -> Arc<ForwardCounters> {
        let counters = Arc::<ForwardCounters>::default();
        self.forwards.lock().push((to, Arc::clone(&counters)));
        counters
    }

    pub(crate) fn each_forward(&self, mut see: impl FnMut(&'static str, &ForwardCounters)) {
        self.forwards.lock().iter().for_each(|(to, counters)| see(to, counters));
    }

    pub(super) fn begin(&self, last: u64) {
        self.begun.store(last, Relaxed);
    }

    pub(super) fn wrote(&self, records: u64) {
        self.written.fetch_add(records, Relaxed);
    }

    pub(super) fn lost(&self, records: u64) {
        self.dropped.fetch_add(records, Relaxed);
    }

    pub(super) fn set_failing(&self, failing: bool) {
        self.failing.store(failing, Relaxed);
    }
}

/// Counters of forwarding to a receiver, updated by the forwarder.
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
