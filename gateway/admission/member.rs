//! Who has a part of a pool: one limit, or all limits of one organisation together, which takes
//! part only while it holds a place. What was borrowed is given back first.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use crate::hungry::{Hungry, HungryLimits, Queue};
use crate::pool::{Pool, Pools};

/// A part of both pools. Its clones are the same part.
#[derive(Clone)]
pub struct Membership {
    pub(crate) running: Arc<Member>,
    pub(crate) waiting: Arc<Member>,
}

/// See the module.
pub(crate) struct Member {
    pool: Arc<Pool>,
    is_organisation: bool,
    /// Places of its share that are held.
    own: AtomicUsize,
    /// Places of the common part that are held.
    borrowed: AtomicUsize,
    /// Of an organisation: all places that are held, and asked for at this moment.
    used: AtomicUsize,
    /// Of an organisation: its limits where somebody waits.
    hungry: HungryLimits,
}

/// What was given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Freed {
    Own,
    Common,
}

impl Pools {
    /// A part for one limit, for as long as it is there.
    #[must_use]
    pub fn join(&self) -> Membership {
        Membership {
            running: Member::of_limit(&self.running),
            waiting: Member::of_limit(&self.waiting),
        }
    }

    /// A part for all limits of one organisation together, while any of them is used.
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
            hungry: HungryLimits::default(),
        })
    }

    /// The places that it may have whatever others do.
    pub(crate) fn share(&self) -> usize {
        match self.is_organisation {
            true => self.pool.share_of_organisation(),
            false => self.pool.share(),
        }
    }

    /// Takes a place of its share, or one of the common part.
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

    /// The queues in which a limit waits that finds no place.
    pub(crate) fn queues(&self) -> &'static [Queue] {
        match self.is_organisation {
            true => &[Queue::Common, Queue::Own],
            false => &[Queue::Common],
        }
    }

    /// Remembers a limit to be woken when a place is free that it may have.
    pub(crate) fn wait(&self, queue: Queue, limit: Weak<dyn Hungry>) {
        self.hungry_in(queue).add(limit);
    }

    /// A place is free that another limit may have: whoever has waited longest for it may try.
    /// Never call this while a limit is locked.
    pub(crate) fn wake(&self, queue: Queue) {
        self.hungry_in(queue).wake(queue);
    }

    fn hungry_in(&self, queue: Queue) -> &HungryLimits {
        match queue {
            Queue::Common => &self.pool.hungry,
            Queue::Own => &self.hungry,
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
