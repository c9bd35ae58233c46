//! Calls that wait for a person: what callers were asked, and what waits for others. All of it is
//! bounded and kept in memory alone, so that a gateway that starts anew knows of no approval.

pub(crate) mod asked;
pub(crate) mod bounds;
pub(crate) mod waiting;

use std::sync::atomic::{AtomicBool, Ordering};

use asked::AskedCalls;
use waiting::WaitingCalls;

/// See the module.
#[derive(Default)]
pub(crate) struct Approvals {
    pub(crate) asked: AskedCalls,
    pub(crate) waiting: WaitingCalls,
    /// Approvers can reach this gateway.
    is_open: AtomicBool,
}

impl Approvals {
    /// Approvers can reach this gateway from now on.
    pub(crate) fn open(&self) {
        self.is_open.store(true, Ordering::Relaxed);
    }

    /// Whether approvers can reach this gateway.
    pub(crate) fn are_open(&self) -> bool {
        self.is_open.load(Ordering::Relaxed)
    }

    /// How many calls wait for a person.
    pub(crate) fn len(&self) -> usize {
        self.asked.len() + self.waiting.len()
    }
}
