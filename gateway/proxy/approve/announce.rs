//! Tells whoever was configured that a call begins to wait for approvers. It waits for nobody: a
//! message that there is no room for is dropped, and counted.

use std::time::{SystemTime, UNIX_EPOCH};

use lockgate_protocol::sealed::Purpose;
use lockgate_telemetry::Notification;
use tokio::sync::mpsc::error::TrySendError;

use super::Asking;
use super::shown::show_text;
use crate::approvals::announced::WaitingApproval;

impl Asking<'_> {
    pub(super) fn announce(&self, id: &str, expires: SystemTime) {
        let Some(sender) = self.gateway.approvals.announcements() else { return };
        let until = expires.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() + 1;
        let sealer = &self.context.snapshot.sealer;
        let Ok(token) = sealer.seal(Purpose::ApprovalLink, &[id.as_bytes()], until, b"") else {
            return;
        };
        let principal = &self.context.principal;
        let rules = self.permitted.approvals().iter().filter(|rule| !rule.is_for_caller());
        let needs = rules.map(|rule| rule.needs()).collect();
        let organisation = principal.organisation.as_deref();
        let tool = self.permitted.listed().unwrap_or_default();
        let waiting = WaitingApproval {
            id: id.to_owned(),
            caller: format!("{}|{}", principal.issuer, principal.subject),
            organisation: organisation.map(str::to_owned),
            tool: show_text(tool),
            server: self.permitted.server().slug().to_owned(),
            needs,
            asked: SystemTime::now(),
            expires,
            token,
        };
        if let Err(TrySendError::Full(waiting)) = sender.try_send(waiting) {
            self.gateway.metrics.notified(Notification::Dropped);
            tracing::warn!(id = waiting.id, "too many messages wait to be sent to the webhook");
        }
    }
}
