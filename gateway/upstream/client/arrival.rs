//! Calls to a server that is not connected: they wait briefly for a connection that is being
//! established, and trigger an attempt if the server is down, unless it was just tried.

use std::sync::Arc;
use std::time::Duration;

use crate::connection::Connection;
use crate::failure::UpstreamError;
use crate::shared::Shared;
use crate::status::{Stage, UpstreamState};

/// Longest wait for a server that is starting or reconnecting.
const ARRIVAL_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest wait for a server that has failed and is retried.
const RETRY_TIMEOUT: Duration = Duration::from_secs(2);
impl Shared {
    pub(super) async fn coming_up(&self) -> Result<Arc<Connection>, UpstreamError> {
        self.called.notify_one();
        let failed = self.recovery.failed();
        let status = self.status.load_full();
        // A server that has run before usually starts again.
        let has_run = status.trouble.as_ref().is_some_and(|trouble| trouble.stage == Stage::Run);
        let deadline = if status.state == UpstreamState::Failed && !has_run {
            RETRY_TIMEOUT
        } else {
            ARRIVAL_TIMEOUT
        };
        let deadline = deadline.min(self.config.load().call_timeout);
        let mut deadline = std::pin::pin!(tokio::time::sleep(deadline));
        loop {
            let changed = self.changed.notified();
            if let Some(connection) = self.live.load_full() {
                return Ok(connection);
            }
            match self.status.load().state {
                // Connected states without a connection: it was lost just now.
                UpstreamState::Pending | UpstreamState::Connected | UpstreamState::Unresponsive => {
                }
                UpstreamState::Resting => {
                    self.wake_for_call();
                    continue;
                }
                UpstreamState::Failed
                    if self.recovery.failed() == failed && self.recovery.want() => {}
                _ => return Err(self.unavailable()),
            }
            tokio::select! {
                () = changed => {}
                () = &mut deadline => return Err(self.unavailable()),
            }
        }
    }
}
