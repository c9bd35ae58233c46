//! Places that several limits share. Half of them is dealt out evenly, so that no limit can take
//! another one's part; the rest goes to whoever comes first.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

/// The pools that a limit takes part in.
#[derive(Clone)]
pub struct Pools {
    /// Who runs at once, in all.
    pub running: Arc<Pool>,
    /// Who waits at once, in all.
    pub waiting: Arc<Pool>,
}

/// A limit where somebody waits for the common part.
pub(crate) trait Hungry: Send + Sync {
    /// The pool has a place again.
    fn try_again(&self);
}

/// See the module. Each member may always have its share, and more while the common part lasts. The
/// shares are never less than one place (unless the pool has none at all), so with many members
/// there are more places than `total`.
pub struct Pool {
    total: AtomicUsize,
    members: AtomicUsize,
    /// What members hold beyond their shares.
    lent: AtomicUsize,
    /// Limits where somebody waits for the common part alone.
    hungry: Mutex<VecDeque<Weak<dyn Hungry>>>,
    /// Their number, to be read without the lock.
    hungry_count: AtomicUsize,
}

impl Pool {
    #[must_use]
    pub fn new(total: usize) -> Arc<Self> {
        Arc::new(Self {
            total: AtomicUsize::new(total),
            members: AtomicUsize::new(0),
            lent: AtomicUsize::new(0),
            hungry: Mutex::default(),
            hungry_count: AtomicUsize::new(0),
        })
    }

    /// Another size. Who holds a place keeps it.
    pub fn resize(&self, total: usize) {
        self.total.store(total, Ordering::Relaxed);
    }

    /// The places that every member may have whatever the others do.
    #[must_use]
    pub fn share(&self) -> usize {
        let total = self.total.load(Ordering::Relaxed);
        let members = self.members.load(Ordering::Relaxed).max(1);
        (total / (2 * members)).max(total.min(1))
    }

    pub(crate) fn join(&self) {
        self.members.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn leave(&self) {
        self.members.fetch_sub(1, Ordering::Relaxed);
    }

    /// One place of the common part, if there is one left.
    pub(crate) fn borrow(&self) -> bool {
        let members = self.members.load(Ordering::Relaxed);
        let dealt = self.share().saturating_mul(members);
        let common = self.total.load(Ordering::Relaxed).saturating_sub(dealt);
        let borrowed = self.lent.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |lent| {
            if lent < common { Some(lent + 1) } else { None }
        });
        borrowed.is_ok()
    }

    pub(crate) fn give_back(&self) {
        self.lent.fetch_sub(1, Ordering::SeqCst);
    }

    /// Remembers a limit to be woken when a place of the common part is free.
    pub(crate) fn wait(&self, limit: Weak<dyn Hungry>) {
        self.hungry.lock().push_back(limit);
        self.hungry_count.fetch_add(1, Ordering::SeqCst);
    }

    /// A place of the common part is free: whoever has waited longest for it may try. Never call
    /// this while a limit is locked.
    pub(crate) fn wake(&self) {
        while self.hungry_count.load(Ordering::SeqCst) > 0 {
            let Some(limit) = self.hungry.lock().pop_front() else { return };
            self.hungry_count.fetch_sub(1, Ordering::SeqCst);
            if let Some(limit) = limit.upgrade() {
                limit.try_again();
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests;
