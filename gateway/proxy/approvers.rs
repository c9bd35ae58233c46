//! What approvers do: they look at the calls that wait for them, and approve or deny them. Who may
//! approve what is said by policies alone.

use lockgate_authn::{Principal, Role};
use lockgate_protocol::sealed::Purpose;
use lockgate_telemetry::audit;
use serde_json::Value;
use tokio::sync::mpsc;

use crate::approvals::announced::Announcement;
use crate::approvals::waiting::{Approver, VoteError, WaitingCall, join_names};
use crate::gateway::Gateway;
use crate::unix_time;

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
    /// Approvers can reach this gateway from now on: without them, what others have to approve is
    /// refused at once.
    pub fn admit_approvers(&self) {
        self.approvals.open();
    }

    /// Has it told there that a call begins to wait for approvers: once for each gateway.
    pub fn announce_approvals(&self, sender: mpsc::Sender<Announcement>) {
        self.approvals.announce_to(sender);
    }

    /// Whether a token is the one of the link to this call, and still good.
    #[must_use]
    pub fn opens_approval(&self, id: &str, token: &str) -> bool {
        let sealer = &self.snapshot().sealer;
        let opened = sealer.open(Purpose::ApprovalLink, &[id.as_bytes()], unix_time::now(), token);
        opened.is_ok()
    }

    /// The call of this id, if this approver may approve it.
    #[must_use]
    pub fn find_approval(&self, approver: &Principal, id: &str) -> Option<Value> {
        self.approvals.waiting.find(self.approver(approver), id)
    }

    /// The calls that this approver may approve, the oldest first.
    #[must_use]
    pub fn list_approvals(&self, approver: &Principal) -> Vec<Value> {
        self.approvals.waiting.list(self.approver(approver))
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
        let answered = waiting.vote(id, self.approver(approver), approve, &|call: &WaitingCall| {
            self.record_vote(call, approver)
        });
        let (call, state) = answered?;
        let who = format!("{}|{}", approver.issuer, approver.subject);
        let requester = format!("{}|{}", call.requester.issuer, call.requester.subject);
        tracing::info!(target: "audit", id, who, requester, approve, "approval answered");
        Ok(state)
    }

    fn approver<'a>(&self, principal: &'a Principal) -> Approver<'a> {
        let role = self.snapshot().authenticator.role_of(principal);
        Approver { principal, is_operator: role == Role::Operator }
    }

    /// Writes into the audit trail that one of several has approved a call.
    fn record_vote(&self, call: &WaitingCall, approver: &Principal) -> Result<(), VoteError> {
        let Some(trail) = &self.audit else { return Ok(()) };
        let written = trail.approval(&audit::Approval {
            state: "counted",
            rule: &join_names(&call.rules),
            issuer: &call.requester.issuer,
            subject: &call.requester.subject,
            by: &format!("{}|{}", approver.issuer, approver.subject),
            server: call.shown["server"].as_str().unwrap_or(""),
            name: call.shown["tool"].as_str().unwrap_or(""),
            digest: call.shown["digest"].as_str().unwrap_or(""),
        });
        if written.is_err() {
            return Err(VoteError::Unrecorded);
        }
        Ok(())
    }
}
