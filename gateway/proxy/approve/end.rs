//! The end of an approval: its log and audit records, and checks that the policies, the caller, the
//! tool and the approvers have not changed in the meantime.

use std::sync::Arc;

use lockgate_authn::Principal;
use lockgate_protocol::key::Key;
use lockgate_telemetry::audit::{self, RecordError};

use super::Asking;
use crate::approvals::waiting::{join_names, name_of};
use crate::rescue::ApprovalError;
use crate::rights::{CallerRights, name_principal};
use crate::snapshot::Seeing;

impl Asking<'_> {
    /// Records the approval as abandoned on drop, unless [`GoneRecord::disarm`] is called.
    pub(super) fn watch_departure(&self) -> GoneRecord<'_> {
        GoneRecord { asking: self, is_over: false }
    }

    pub(super) fn deny<T>(&self, by: &Principal) -> Result<T, ApprovalError> {
        self.record("denied", std::slice::from_ref(by))?;
        let is_caller = *by == self.context.principal;
        let who = if is_caller { "its caller".to_owned() } else { name_of(by) };
        Err(ApprovalError::Denied(who))
    }

    pub(super) fn expire<T>(&self) -> Result<T, ApprovalError> {
        self.record("expired", &[])?;
        Err(ApprovalError::Expired)
    }

    /// Records a state in the log and the audit trail. If the operator requires audit records, a
    /// failed record stops the call.
    pub(super) fn record(&self, state: &'static str, by: &[Principal]) -> Result<(), RecordError> {
        let Self { gateway, context, permitted, call, .. } = self;
        let rule = join_names(permitted.approvals());
        let names: Vec<_> = by.iter().map(name_of).collect();
        let people = by.iter().map(name_principal).collect::<Vec<_>>().join(", ");
        let who = name_principal(&context.principal);
        let tool = permitted.listed().unwrap_or("");
        tracing::info!(target: "audit", approval = state, who, tool, rule, by = people, "approval");
        let Some(trail) = &gateway.audit else { return Ok(()) };
        let digest = call.digest_text();
        trail.approval(&audit::Approval {
            state,
            rule: &rule,
            issuer: &context.principal.issuer,
            subject: &context.principal.subject,
            key: context.principal.key_name.as_deref(),
            organisation: context.principal.named_organisation(),
            by: &people,
            by_name: &names.join(", "),
            server: &permitted.server().qualified_name(),
            name: tool,
            digest: &digest,
        })
    }
}

/// Guard that records an approval as abandoned: the client has disconnected, or the gateway stops.
pub(super) struct GoneRecord<'a> {
    asking: &'a Asking<'a>,
    is_over: bool,
}

impl GoneRecord<'_> {
    /// Cancels the record: the approval was decided or has expired.
    pub(super) fn disarm(mut self) {
        self.is_over = true;
    }
}

impl Drop for GoneRecord<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            let _ = self.asking.record("gone", &[]);
        }
    }
}

impl Asking<'_> {
    /// Checks that the approvers' credentials are still valid, with the same roles.
    pub(super) fn check_approvers(&self, approvers: &[Principal]) -> Result<(), ApprovalError> {
        let now = self.gateway.snapshot();
        for approver in approvers {
            match now.authenticator.current(approver) {
                Some(current) if current.roles == approver.roles => {}
                _ => {
                    let what = "the credential of an approver";
                    return Err(ApprovalError::Changed(what));
                }
            }
        }
        Ok(())
    }

    /// Checks that the policies, the caller's rights and the tool are those of the question.
    pub(super) fn check_unchanged(&self) -> Result<(), ApprovalError> {
        let was = self.context;
        let now = self.gateway.snapshot();
        if now.policy.fingerprint() != was.snapshot.policy.fingerprint() {
            return Err(ApprovalError::Changed("the policies"));
        }
        let Some(principal) = now.authenticator.current(&was.principal) else {
            return Err(ApprovalError::Changed("the caller's credential is no longer valid"));
        };
        let before = &was.principal;
        let same = principal.roles == before.roles
            && principal.scopes == before.scopes
            && principal.named_organisation() == before.named_organisation()
            && principal.agent == before.agent;
        if !same {
            return Err(ApprovalError::Changed("the rights of the caller's credential"));
        }
        let rights = CallerRights::new(&now.policy, principal, &was.endpoint);
        let seeing = Seeing { endpoint: &was.endpoint, snapshot: &now, rights: &rights };
        let view = self.gateway.view(&self.gateway.own_clients_of(was), seeing);
        let name = was.request.param_str(Key::Name);
        let name = name.as_deref().unwrap_or("");
        if let Some(view) = view
            && let Some(seen) = view.tool(name)
            && let Some(before) = was.view.tool(name)
            && seen.entry.item.text == before.entry.item.text
            && Arc::ptr_eq(&seen.entry.server, self.permitted.server())
        {
            return Ok(());
        }
        Err(ApprovalError::Changed("the tool"))
    }
}
