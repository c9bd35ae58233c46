//! Limits where somebody waits for a place that other limits hold, in the order in which they came.

use std::collections::VecDeque;
use std::sync::Weak;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

/// A limit where somebody waits for what other limits hold.
pub(crate) trait Hungry: Send + Sync {
    /// There is a place again in what this queue is for.
    fn try_again(&self, queue: Queue);
}

/// What is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Queue {
    /// The common part of the pool.
    Common,
    /// The share that the limits of one organisation have together.
    Own,
}

/// See the module.
#[derive(Default)]
pub(crate) struct HungryLimits {
    limits: Mutex<VecDeque<Weak<dyn Hungry>>>,
    /// Their number, to be read without the lock.
    count: AtomicUsize,
}

impl HungryLimits {
    pub(crate) fn add(&self, limit: Weak<dyn Hungry>) {
        self.limits.lock().push_back(limit);
        self.count.fetch_add(1, Ordering::SeqCst);
    }

    /// Lets the one try that has waited longest.
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
