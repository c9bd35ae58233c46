//! What may be told elsewhere of a call that waits for approvers: whose it is and which tool. Its
//! arguments are for the eyes of approvers alone.

use std::time::SystemTime;

use tokio_util::sync::CancellationToken;

use crate::quota::QuotaPermit;

/// What is told of a call, for as long as the call waits.
pub struct Announcement {
    pub approval: WaitingApproval,
    over: CancellationToken,
    /// Its caller's share of what waits to be told.
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

    /// Whether the call waits no more: nobody needs to hear of it.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.over.is_cancelled() || self.approval.expires <= SystemTime::now()
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub struct WaitingApproval {
    pub id: String,
    /// `issuer|subject`.
    pub caller: String,
    pub organisation: Option<String>,
    /// As it is listed.
    pub tool: String,
    pub server: String,
    /// Whose approvals the policies need, in words.
    pub needs: Vec<String>,
    pub asked: SystemTime,
    pub expires: SystemTime,
    /// What opens the page of this call, until it expires.
    pub token: String,
}
