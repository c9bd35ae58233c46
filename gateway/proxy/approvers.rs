//! What approvers do: they look at the calls that wait for them, and approve or deny them. Who may
//! approve what is said by policies alone.

use lockgate_authn::Principal;
use serde_json::Value;

use crate::approvals::waiting::VoteError;
use crate::gateway::Gateway;
use crate::rights::subject;

/// An answer of an approver that does not count.
#[derive(Debug, thiserror::Error)]
#[error("{words}")]
pub struct ApproverError {
    words: String,
    /// Nothing with this id waits for this approver.
    pub is_unknown: bool,
}

impl From<VoteError> for ApproverError {
    fn from(error: VoteError) -> Self {
        Self { words: error.to_string(), is_unknown: error == VoteError::Unknown }
    }
}

impl Gateway {
    /// The calls that this approver may approve, the oldest first.
    #[must_use]
    pub fn list_approvals(&self, approver: &Principal) -> Vec<Value> {
        self.approvals.waiting.list(approver, &subject(approver))
    }

    /// Counts the answer of an approver; gives how the call stands then.
    ///
    /// # Errors
    /// [`ApproverError`].
    pub fn answer_approval(
        &self,
        approver: &Principal,
        id: &str,
        approve: bool,
    ) -> Result<Value, ApproverError> {
        let waiting = &self.approvals.waiting;
        let answered = waiting.vote(id, approver, &subject(approver), approve);
        let (call, state) = answered?;
        let who = format!("{}|{}", approver.issuer, approver.subject);
        let requester = format!("{}|{}", call.requester.issuer, call.requester.subject);
        tracing::info!(target: "audit", id, who, requester, approve, "approval answered");
        Ok(state)
    }
}
