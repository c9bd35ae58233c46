//! Calls that await approval by their caller or by approvers. The tables are bounded and kept in
//! memory only, so a restart forgets all approvals.

pub(crate) mod announced;
pub(crate) mod asked;
pub(crate) mod waiting;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use announced::Announcement;
use asked::AskedCalls;
use tokio::sync::mpsc;
use waiting::WaitingCalls;

use crate::quota::Quotas;

/// The tables of calls that await approval.
#[derive(Default)]
pub(crate) struct Approvals {
    pub(crate) asked: AskedCalls,
    pub(crate) waiting: WaitingCalls,
    is_open: AtomicBool,
    announcements: OnceLock<mpsc::Sender<Announcement>>,
    /// Queued announcements per caller.
    pub(crate) announced: Arc<Quotas>,
}

impl Approvals {
    /// Records that approvers can reach this gateway from now on.
    pub(crate) fn open(&self) {
        self.is_open.store(true, Ordering::Relaxed);
    }

    pub(crate) fn are_open(&self) -> bool {
        self.is_open.load(Ordering::Relaxed)
    }

    /// Sets the channel for announcements; only the first call has an effect.
    pub(crate) fn announce_to(&self, sender: mpsc::Sender<Announcement>) {
        let _ = self.announcements.set(sender);
    }

    pub(crate) fn announcements(&self) -> Option<&mpsc::Sender<Announcement>> {
        self.announcements.get()
    }

    pub(crate) fn len(&self) -> usize {
        self.asked.len() + self.waiting.len()
    }
}
