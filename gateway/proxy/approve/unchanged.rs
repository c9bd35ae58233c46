//! Checks after an approval that the policies, the caller, the tool and the approvers have not
//! changed in the meantime.

use std::sync::Arc;

use lockgate_authn::Principal;
use lockgate_protocol::key::Key;

use super::Asking;
use crate::directory::Seeing;
use crate::rescue::ApprovalError;
use crate::rights::CallerRights;

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
        let view = self.gateway.view_with(&self.gateway.own_clients_of(was), seeing);
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
