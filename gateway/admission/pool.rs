//! Permits shared by several limits. Half are divided evenly into guaranteed shares; the rest is
//! first come, first served. All organisations together have a single part, divided among those
//! with calls in progress.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::pool_waiter::PoolWaiters;

/// The pools that limits are members of.
#[derive(Clone)]
pub struct Pools {
    /// Bounds all running calls.
    pub running: Arc<Pool>,
    /// Bounds all waiting calls.
    pub waiting: Arc<Pool>,
}

/// A pool of permits. Each member is guaranteed its share, and gets more while the common part
/// lasts. A share is at least one permit (unless the pool is empty), so many members may exceed
/// `total`.
pub struct Pool {
    total: AtomicUsize,
    /// Members that are single limits.
    pub(crate) limits: AtomicUsize,
    /// Organisations that hold a permit.
    pub(crate) organisations: AtomicUsize,
    /// Permits held beyond the shares.
    lent: AtomicUsize,
    /// Limits with callers that wait for the common part.
    pub(crate) waiters: PoolWaiters,
}

impl Pool {
    pub fn new(total: usize) -> Arc<Self> {
        Arc::new(Self {
            total: AtomicUsize::new(total),
            limits: AtomicUsize::new(0),
            organisations: AtomicUsize::new(0),
            lent: AtomicUsize::new(0),
            waiters: PoolWaiters::default(),
        })
    }

    /// Sets the size. Permits are kept.
    pub fn resize(&self, total: usize) {
        self.total.store(total, Ordering::Relaxed);
    }

    /// Returns the guaranteed share of a single limit.
    pub(crate) fn share(&self) -> usize {
        let parts = self.count_parts().max(1);
        self.deal(parts)
    }

    /// Returns the guaranteed share of an organisation in use.
    pub(crate) fn share_of_organisation(&self) -> usize {
        let organisations = self.organisations.load(Ordering::Relaxed).max(1);
        self.deal(self.count_parts().max(1).saturating_mul(organisations))
    }

    /// Counts the parts: single limits, and one for all organisations.
    fn count_parts(&self) -> usize {
        let is_shared = self.organisations.load(Ordering::Relaxed) > 0;
        self.limits.load(Ordering::Relaxed) + usize::from(is_shared)
    }

    fn deal(&self, parts: usize) -> usize {
        let total = self.total.load(Ordering::Relaxed);
        (total / 2 / parts).max(total.min(1))
    }

    /// Borrows a permit from the common part, if any is left.
    pub(crate) fn borrow(&self) -> bool {
        let dealt = self.share().saturating_mul(self.count_parts());
        let common = self.total.load(Ordering::Relaxed).saturating_sub(dealt);
        let borrowed = self.lent.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |lent| {
            if lent < common { Some(lent + 1) } else { None }
        });
        borrowed.is_ok()
    }

    pub(crate) fn give_back(&self) {
        self.lent.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests;
