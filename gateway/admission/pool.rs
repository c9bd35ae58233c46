//! Places that several limits share. Half of them is dealt out evenly, so that no limit can take
//! another one's part; the rest goes to whoever comes first. All organisations together have one
//! part, which is dealt to those that have a call now.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::hungry::HungryLimits;

/// The pools that limits take part in.
#[derive(Clone)]
pub struct Pools {
    /// Who runs at once, in all.
    pub running: Arc<Pool>,
    /// Who waits at once, in all.
    pub waiting: Arc<Pool>,
}

/// See the module. Each member may always have its share, and more while the common part lasts. The
/// shares are never less than one place (unless the pool has none at all), so with many members
/// there are more places than `total`.
pub struct Pool {
    total: AtomicUsize,
    /// Limits with a part of their own.
    pub(crate) limits: AtomicUsize,
    /// Organisations that hold a place.
    pub(crate) organisations: AtomicUsize,
    /// What members hold beyond their shares.
    lent: AtomicUsize,
    /// Limits where somebody waits for the common part alone.
    pub(crate) hungry: HungryLimits,
}

impl Pool {
    #[must_use]
    pub fn new(total: usize) -> Arc<Self> {
        Arc::new(Self {
            total: AtomicUsize::new(total),
            limits: AtomicUsize::new(0),
            organisations: AtomicUsize::new(0),
            lent: AtomicUsize::new(0),
            hungry: HungryLimits::default(),
        })
    }

    /// Another size. Who holds a place keeps it.
    pub fn resize(&self, total: usize) {
        self.total.store(total, Ordering::Relaxed);
    }

    /// The places that every limit with a part of its own may have whatever the others do.
    pub(crate) fn share(&self) -> usize {
        let parts = self.count_parts().max(1);
        self.deal(parts)
    }

    /// The same of every organisation that has a call now.
    pub(crate) fn share_of_organisation(&self) -> usize {
        let organisations = self.organisations.load(Ordering::Relaxed).max(1);
        self.deal(self.count_parts().max(1).saturating_mul(organisations))
    }

    /// Limits with a part of their own, and one part for all organisations.
    fn count_parts(&self) -> usize {
        let is_shared = self.organisations.load(Ordering::Relaxed) > 0;
        self.limits.load(Ordering::Relaxed) + usize::from(is_shared)
    }

    fn deal(&self, parts: usize) -> usize {
        let total = self.total.load(Ordering::Relaxed);
        (total / 2 / parts).max(total.min(1))
    }

    /// One place of the common part, if there is one left.
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
