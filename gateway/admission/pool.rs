//! Permits shared by several limits. Half are divided evenly into guaranteed shares; the rest is
//! first come, first served. All organisations together have a single part, divided among those
//! with calls in progress.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

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

/// A membership in both pools. Clones share it.
#[derive(Clone)]
pub struct Membership {
    pub(crate) running: Arc<Member>,
    pub(crate) waiting: Arc<Member>,
}

pub(crate) struct Member {
    pool: Arc<Pool>,
    is_organisation: bool,
    /// Permits held from the share.
    own: AtomicUsize,
    /// Permits held from the common part.
    borrowed: AtomicUsize,
    /// Organisations only: permits that are held or being requested.
    used: AtomicUsize,
    /// Organisations only: limits with waiting callers.
    waiters: PoolWaiters,
}

impl Pools {
    /// Creates a membership for a single limit.
    #[must_use]
    pub fn join(&self) -> Membership {
        self.join_as(false)
    }

    /// Creates a membership for all limits of an organisation, which has a share while in use.
    #[must_use]
    pub fn join_organisation(&self) -> Membership {
        self.join_as(true)
    }

    fn join_as(&self, is_organisation: bool) -> Membership {
        let Self { running, waiting } = self;
        Membership {
            running: Member::new(running, is_organisation),
            waiting: Member::new(waiting, is_organisation),
        }
    }
}

impl Member {
    fn new(pool: &Arc<Pool>, is_organisation: bool) -> Arc<Self> {
        if !is_organisation {
            pool.limits.fetch_add(1, Ordering::Relaxed);
        }
        Arc::new(Self {
            pool: Arc::clone(pool),
            is_organisation,
            own: AtomicUsize::new(0),
            borrowed: AtomicUsize::new(0),
            used: AtomicUsize::new(0),
            waiters: PoolWaiters::default(),
        })
    }

    /// Returns the number of permits guaranteed to the member.
    pub(crate) fn share(&self) -> usize {
        if self.is_organisation { self.pool.share_of_organisation() } else { self.pool.share() }
    }

    /// Takes a permit from the share, or else from the common part.
    pub(crate) fn take(&self) -> bool {
        self.begin_use();
        let share = self.share();
        let taken = self.own.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |own| {
            if own < share { Some(own + 1) } else { None }
        });
        if taken.is_ok() {
            return true;
        }
        if self.pool.borrow() {
            self.borrowed.fetch_add(1, Ordering::SeqCst);
            return true;
        }
        self.end_use();
        false
    }

    /// Returns a permit, and the part that it was taken from.
    pub(crate) fn give_back(&self) -> Queue {
        let borrowed = self
            .borrowed
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |borrowed| borrowed.checked_sub(1));
        let is_common = borrowed.is_ok();
        if is_common {
            self.pool.give_back();
        } else {
            self.own.fetch_sub(1, Ordering::SeqCst);
        }
        self.end_use();
        if is_common { Queue::Common } else { Queue::Own }
    }

    fn begin_use(&self) {
        if self.is_organisation && self.used.fetch_add(1, Ordering::SeqCst) == 0 {
            self.pool.organisations.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn end_use(&self) {
        if self.is_organisation && self.used.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.pool.organisations.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// Returns the queues in which a limit without a permit waits.
    pub(crate) fn queues(&self) -> &'static [Queue] {
        if self.is_organisation { &[Queue::Common, Queue::Own] } else { &[Queue::Common] }
    }

    /// Registers a limit to be woken when a permit is free for it.
    pub(crate) fn wait(&self, queue: Queue, limit: Weak<dyn PoolWaiter>) {
        self.waiters_in(queue).add(limit);
    }

    /// Wakes the longest waiting limit after a permit was freed. Must not be called while a limit
    /// is locked.
    pub(crate) fn wake(&self, queue: Queue) {
        self.waiters_in(queue).wake(queue);
    }

    fn waiters_in(&self, queue: Queue) -> &PoolWaiters {
        match queue {
            Queue::Common => &self.pool.waiters,
            Queue::Own => &self.waiters,
        }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        if !self.is_organisation {
            self.pool.limits.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// A limit with callers that wait for permits held by other limits.
pub(crate) trait PoolWaiter: Send + Sync {
    /// Retries after a permit in this queue's part was freed.
    fn try_again(&self, queue: Queue);
}

/// The part of the pool that a permit belongs to, or that is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Queue {
    /// The common part of the pool.
    Common,
    /// The share of an organisation's limits.
    Own,
}

#[derive(Default)]
pub(crate) struct PoolWaiters {
    limits: Mutex<VecDeque<Weak<dyn PoolWaiter>>>,
    /// The length, readable without the lock.
    count: AtomicUsize,
}

impl PoolWaiters {
    pub(crate) fn add(&self, limit: Weak<dyn PoolWaiter>) {
        self.limits.lock().push_back(limit);
        self.count.fetch_add(1, Ordering::SeqCst);
    }

    /// Wakes the longest waiting limit.
    pub(crate) fn wake(&self, queue: Queue) {
        while self.count.load(Ordering::SeqCst) > 0 {
            let Some(limit) = self.limits.lock().pop_front() else { return };
            self.count.fetch_sub(1, Ordering::SeqCst);
            if let Some(limit) = limit.upgrade() {
                limit.try_again(queue);
                return;
            }
        }
    }
}
