//! Calls that await approval by their caller or by approvers. The tables are bounded and kept in
//! memory only, so a restart forgets all approvals.

pub(crate) mod asked;
pub(crate) mod waiting;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use asked::AskedCalls;
use waiting::WaitingCalls;

use crate::quota::{QuotaPermit, Quotas};

/// The tables of calls that await approval.
#[derive(Default)]
pub struct Approvals {
    pub(crate) asked: AskedCalls,
    /// The calls that wait for approvers.
    pub waiting: WaitingCalls,
    is_open: AtomicBool,
    announcements: OnceLock<mpsc::Sender<Announcement>>,
    /// Queued announcements per caller.
    pub(crate) announced: Arc<Quotas>,
}

impl Approvals {
    /// Accepts approvers from now on. Until then, calls that need the approval of others are
    /// refused at once.
    pub fn open(&self) {
        self.is_open.store(true, Ordering::Relaxed);
    }

    pub(crate) fn are_open(&self) -> bool {
        self.is_open.load(Ordering::Relaxed)
    }

    /// Sets the channel for announcements of waiting calls; only the first call has an effect.
    pub fn announce_to(&self, sender: mpsc::Sender<Announcement>) {
        let _ = self.announcements.set(sender);
    }

    pub(crate) fn announcements(&self) -> Option<&mpsc::Sender<Announcement>> {
        self.announcements.get()
    }

    pub(crate) fn len(&self) -> usize {
        self.asked.len() + self.waiting.len()
    }
}

/// An announcement, obsolete once the call no longer waits.
pub struct Announcement {
    pub approval: WaitingApproval,
    pub(crate) over: CancellationToken,
    pub(crate) _share: QuotaPermit,
}

impl Announcement {
    /// Returns whether the call no longer waits, so that the announcement can be dropped.
    pub fn is_over(&self) -> bool {
        self.over.is_cancelled() || self.approval.expires <= SystemTime::now()
    }
}

/// The details of a waiting call that may be sent outside the gateway.
#[derive(Clone, Debug)]
pub struct WaitingApproval {
    pub id: String,
    /// `issuer|subject`.
    pub caller: String,
    pub organisation: Option<String>,
    /// The listed name.
    pub tool: String,
    pub server: String,
    /// Approvers that the policies require, as text.
    pub needs: Vec<String>,
    pub asked: SystemTime,
    pub expires: SystemTime,
    /// Token of the link to the call's page, valid until `expires`.
    pub token: String,
}
