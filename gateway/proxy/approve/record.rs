//! What becomes of a call that somebody has to approve, in the log and the audit trail.

use lockgate_authn::Principal;
use lockgate_telemetry::audit;

use super::{Asking, Stop};
use crate::approvals::waiting::join_names;
use crate::rescue::{ApprovalError, RequestError};

impl Asking<'_> {
    /// Until [`GoneRecord::disarm`], the end of this is that nobody waits for the approval any
    /// more.
    pub(super) fn watch_departure(&self) -> GoneRecord<'_> {
        GoneRecord { asking: self, is_over: false }
    }

    pub(super) fn deny<T>(&self, by: &Principal) -> Result<T, Stop> {
        self.record("denied", std::slice::from_ref(by))?;
        let who = match *by == self.context.principal {
            true => "its caller".to_owned(),
            false => format!("{}|{}", by.issuer, by.subject),
        };
        Err(ApprovalError::Denied(who).into())
    }

    pub(super) fn expire<T>(&self) -> Result<T, Stop> {
        self.record("expired", &[])?;
        Err(ApprovalError::Expired.into())
    }

    /// Writes what happened into the log and the audit trail; without a record the call is not
    /// made, if the operator says so.
    pub(super) fn record(&self, state: &'static str, by: &[Principal]) -> Result<(), RequestError> {
        let Self { gateway, context, permitted, call, .. } = self;
        let rule = join_names(permitted.approvals());
        let mut people = Vec::with_capacity(by.len());
        for one in by {
            people.push(format!("{}|{}", one.issuer, one.subject));
        }
        let people = people.join(", ");
        let who = format!("{}|{}", context.principal.issuer, context.principal.subject);
        let tool = permitted.listed().unwrap_or("");
        tracing::info!(target: "audit", approval = state, who, tool, rule, by = people, "approval");
        let Some(trail) = &gateway.audit else { return Ok(()) };
        let digest = call.digest_text();
        trail.approval(&audit::Approval {
            state,
            rule: &rule,
            issuer: &context.principal.issuer,
            subject: &context.principal.subject,
            by: &people,
            server: &permitted.server().qualified_name(),
            name: tool,
            digest: &digest,
        })?;
        Ok(())
    }
}

/// Records that nobody waits for the approval any more: the client has left, or the gateway ends.
pub(super) struct GoneRecord<'a> {
    asking: &'a Asking<'a>,
    is_over: bool,
}

impl GoneRecord<'_> {
    /// Somebody has answered, or nobody in time.
    pub(super) fn disarm(mut self) {
        self.is_over = true;
    }
}

impl Drop for GoneRecord<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            drop(self.asking.record("gone", &[]));
        }
    }
}
