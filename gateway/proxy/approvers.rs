//! The operations of approvers: list waiting calls, approve and deny them. Policies alone decide on
//! eligibility.

use lockgate_authn::{Principal, Role};
use lockgate_protocol::sealed::Purpose;
use lockgate_telemetry::audit::{Approval, RecordError};
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
        let parts = ["server", "tool", "digest"];
        let about = parts.map(|name| call.shown[name].as_str().unwrap_or(""));
        let rule = join_names(&call.rules);
        let by = std::slice::from_ref(approver);
        let written = record_approval(self, ("counted", &rule), &call.requester, by, about);
        written.map_err(|_| ApproverError::Unrecorded)
    }
}

/// Records a state of a call that needs approval, with its rules, in the audit trail, if there is
/// one.
pub(crate) fn record_approval(
    gateway: &Gateway,
    (state, rule): (&'static str, &str),
    caller: &Principal,
    by: &[Principal],
    [server, name, digest]: [&str; 3],
) -> Result<(), RecordError> {
    let Some(trail) = &gateway.audit else { return Ok(()) };
    trail.approval(&Approval {
        state,
        rule,
        issuer: &caller.issuer,
        subject: &caller.subject,
        key: caller.key_name.as_deref(),
        organisation: caller.named_organisation(),
        by: &join_people(by, name_principal),
        by_name: &join_people(by, name_of),
        server,
        name,
        digest,
    })
}

/// Lists principals by name.
pub(crate) fn join_people(people: &[Principal], name: fn(&Principal) -> String) -> String {
    people.iter().map(name).collect::<Vec<_>>().join(", ")
}
