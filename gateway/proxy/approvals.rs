//! Calls that wait for a person: what callers were asked, and what waits for others. All of it is
//! bounded and kept in memory alone, so that a gateway that starts anew knows of no approval.

pub(crate) mod announced;
pub(crate) mod asked;
pub(crate) mod bounds;
pub(crate) mod waiting;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use announced::Announcement;
use asked::AskedCalls;
use tokio::sync::mpsc;
use waiting::WaitingCalls;

use crate::quota::Quotas;

/// See the module.
#[derive(Default)]
pub(crate) struct Approvals {
    pub(crate) asked: AskedCalls,
    pub(crate) waiting: WaitingCalls,
    /// Approvers can reach this gateway.
    is_open: AtomicBool,
    /// Where it is told that a call begins to wait for approvers.
    announcements: OnceLock<mpsc::Sender<Announcement>>,
    /// What waits to be told, of each caller.
    pub(crate) announced: Arc<Quotas>,
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

    /// Has it told there that a call begins to wait for approvers; the first one stays.
    pub(crate) fn announce_to(&self, sender: mpsc::Sender<Announcement>) {
        let _ = self.announcements.set(sender);
    }

    pub(crate) fn announcements(&self) -> Option<&mpsc::Sender<Announcement>> {
        self.announcements.get()
    }

    /// How many calls wait for a person.
    pub(crate) fn len(&self) -> usize {
        self.asked.len() + self.waiting.len()
    }
}
