//! How the trail does, for metrics. Nothing here locks.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// Counted by the writer and by whoever could not hand it a record.
#[derive(Debug, Default)]
pub struct AuditCounters {
    written: AtomicU64,
    dropped: AtomicU64,
    failing: AtomicBool,
}

impl AuditCounters {
    /// Records that were written.
    pub fn written(&self) -> u64 {
        self.written.load(Relaxed)
    }

    /// Records that are missing.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Relaxed)
    }

    /// Nothing can be written at the moment.
    pub fn is_failing(&self) -> bool {
        self.failing.load(Relaxed)
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
