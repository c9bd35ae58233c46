//! Members of a pool: a single limit, or all limits of an organisation together, which count as a
//! member only while they hold a permit. Borrowed permits are returned before those of the share.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use crate::pool::{Pool, Pools};
use crate::pool_waiter::{PoolWaiter, PoolWaiters, Queue};

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

/// The part that a returned permit belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Freed {
    Own,
    Common,
}

impl Pools {
    /// Creates a membership for a single limit.
    #[must_use]
    pub fn join(&self) -> Membership {
        Membership {
            running: Member::of_limit(&self.running),
            waiting: Member::of_limit(&self.waiting),
        }
    }

    /// Creates a membership for all limits of an organisation, which has a share while in use.
    #[must_use]
    pub fn join_organisation(&self) -> Membership {
        Membership {
            running: Member::of_organisation(&self.running),
            waiting: Member::of_organisation(&self.waiting),
        }
    }
}

impl Member {
    fn of_limit(pool: &Arc<Pool>) -> Arc<Self> {
        pool.limits.fetch_add(1, Ordering::Relaxed);
        Self::new(pool, false)
    }

    fn of_organisation(pool: &Arc<Pool>) -> Arc<Self> {
        Self::new(pool, true)
    }

    fn new(pool: &Arc<Pool>, is_organisation: bool) -> Arc<Self> {
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

    pub(crate) fn give_back(&self) -> Freed {
        let borrowed = self
            .borrowed
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |borrowed| borrowed.checked_sub(1));
        let freed = match borrowed {
            Ok(_) => {
                self.pool.give_back();
                Freed::Common
            }
            Err(_) => {
                self.own.fetch_sub(1, Ordering::SeqCst);
                Freed::Own
            }
        };
        self.end_use();
        freed
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
