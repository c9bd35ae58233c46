//! Limits that wait for permits held by other limits, in order of arrival.

use std::collections::VecDeque;
use std::sync::Weak;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

/// A limit with callers that wait for permits held by other limits.
pub(crate) trait PoolWaiter: Send + Sync {
    /// Retries after a permit in this queue's part was freed.
    fn try_again(&self, queue: Queue);
}

/// The part of the pool that is waited for.
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
