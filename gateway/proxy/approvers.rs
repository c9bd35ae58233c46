//! The operations of approvers: list waiting calls, approve and deny them. Policies alone decide on
//! eligibility.

use lockgate_authn::{Principal, Role};
use lockgate_protocol::sealed::Purpose;
use lockgate_telemetry::audit;
use lockgate_text::date;
use serde_json::Value;

use crate::approvals::waiting::{Approver, ApproverError, WaitingCall, join_names, name_of};
use crate::gateway::Gateway;
use crate::rights::name_principal;

impl Gateway {
    /// Returns whether the token is that of the link to this call, and has not expired.
    #[must_use]
    pub fn opens_approval(&self, id: &str, token: &str) -> bool {
        let sealer = &self.snapshot().sealer;
        let opened = sealer.open(Purpose::ApprovalLink, &[id.as_bytes()], date::now(), token);
        opened.is_ok()
    }

    /// Counts a vote and returns the call's new state.
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
        let who = name_principal(approver);
        let requester = name_principal(&call.requester);
        tracing::info!(target: "audit", id, who, requester, approve, "approval answered");
        Ok(state)
    }

    /// Returns a principal as one that lists waiting calls or votes on them.
    pub fn approver<'a>(&self, principal: &'a Principal) -> Approver<'a> {
        let role = self.snapshot().authenticator.role_of(principal);
        Approver { principal, is_operator: role == Role::Operator }
    }

    /// Records in the audit trail an approval that does not suffice alone.
    fn record_vote(&self, call: &WaitingCall, approver: &Principal) -> Result<(), ApproverError> {
        let Some(trail) = &self.audit else { return Ok(()) };
        let written = trail.approval(&audit::Approval {
            state: "counted",
            rule: &join_names(&call.rules),
            issuer: &call.requester.issuer,
            subject: &call.requester.subject,
            key: call.requester.key_name.as_deref(),
            organisation: call.requester.named_organisation(),
            by: &name_principal(approver),
            by_name: &name_of(approver),
            server: call.shown["server"].as_str().unwrap_or(""),
            name: call.shown["tool"].as_str().unwrap_or(""),
            digest: call.shown["digest"].as_str().unwrap_or(""),
        });
        written.map_err(|_| ApproverError::Unrecorded)
    }
}
