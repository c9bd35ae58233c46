//! The announcement of a call that waits for approvers: its caller and its tool. Arguments are left
//! out, because only approvers may see them.

use std::time::SystemTime;

use tokio_util::sync::CancellationToken;

use crate::quota::QuotaPermit;

/// An announcement, obsolete once the call no longer waits.
pub struct Announcement {
    pub approval: WaitingApproval,
    over: CancellationToken,
    _share: QuotaPermit,
}

impl Announcement {
    pub(crate) fn new(
        approval: WaitingApproval,
        over: CancellationToken,
        share: QuotaPermit,
    ) -> Self {
        Self { approval, over, _share: share }
    }

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
