//! What may be told elsewhere of a call that waits for approvers: whose it is and which tool. Its
//! arguments are for the eyes of approvers alone.

use std::time::SystemTime;

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
