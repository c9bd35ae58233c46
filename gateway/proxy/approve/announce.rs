//! Announces to the configured webhook that a call waits for approvers. Sending never blocks: a
//! message that finds the queue full is dropped and counted.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lockgate_protocol::sealed::Purpose;
use lockgate_telemetry::Notification;
use tokio::sync::mpsc::error::TrySendError;
use tokio_util::sync::CancellationToken;

use super::Asking;
use super::shown::show_text;
use crate::approvals::announced::{Announcement, WaitingApproval};

impl Asking<'_> {
    /// Queues the announcement of a call, valid until `over`. A caller's share of the queue is
    /// limited to the number of its calls that may wait at once.
    pub(super) fn announce(&self, id: &str, expires: SystemTime, over: &CancellationToken) {
        let approvals = &self.gateway.approvals;
        let Some(sender) = approvals.announcements() else { return };
        let share = approvals.announced.take(&self.context.principal, self.bounds.of_principal);
        let Some(share) = share else { return self.drop_announcement(id) };
        let until = expires.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs() + 1;
        let sealer = &self.context.snapshot.sealer;
        let Ok(token) = sealer.seal(Purpose::ApprovalLink, &[id.as_bytes()], until, b"") else {
            return;
        };
        let principal = &self.context.principal;
        let mut needs = Vec::new();
        for rule in self.rules(false) {
            needs.push(rule.needs());
        }
        let organisation = principal.named_organisation();
        let tool = self.permitted.listed().unwrap_or("");
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
        let announcement = Announcement::new(waiting, over.clone(), share);
        if let Err(TrySendError::Full(_)) = sender.try_send(announcement) {
            self.drop_announcement(id);
        }
    }

    fn drop_announcement(&self, id: &str) {
        self.gateway.metrics.notified(Notification::Dropped);
        tracing::warn!(id, "message dropped: the webhook's queue is full");
    }
}
