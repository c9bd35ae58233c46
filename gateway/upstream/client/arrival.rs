//! The way of a call to a server that is not connected: it waits a little for one that is coming
//! up, and has one that is down tried at once, unless that has just been done.

use std::sync::Arc;
use std::time::Duration;

use crate::connection::Connection;
use crate::failure::UpstreamError;
use crate::shared::Shared;
use crate::status::{Stage, State};

/// How long a call waits for a server that is just starting or reconnecting.
const TIMEOUT: Duration = Duration::from_secs(5);
/// How long it waits for one that has failed and is tried again.
const RETRY_TIMEOUT: Duration = Duration::from_secs(2);
impl Shared {
    /// The connection that everybody shares, once there is one.
    pub(super) async fn coming_up(&self) -> Result<Arc<Connection>, UpstreamError> {
        self.called.notify_one();
        let failed = self.recovery.failed();
        let status = self.status.load_full();
        // One that has just run starts again, as a rule.
        let has_run = status.trouble.as_ref().is_some_and(|trouble| trouble.stage == Stage::Run);
        let deadline =
            if status.state == State::Failed && !has_run { RETRY_TIMEOUT } else { TIMEOUT };
        let deadline = deadline.min(self.config.load().call_timeout);
        let mut deadline = std::pin::pin!(tokio::time::sleep(deadline));
        loop {
            let changed = self.changed.notified();
            if let Some(connection) = self.live.load_full() {
                return Ok(connection);
            }
            match self.status.load().state {
                // Without a connection they have just lost it.
                State::Pending | State::Connected | State::Unresponsive => {}
                State::Resting => {
                    self.wake_for_call();
                    continue;
                }
                State::Failed if self.recovery.failed() == failed && self.recovery.want() => {}
                _ => return Err(self.unavailable()),
            }
            tokio::select! {
                () = changed => {}
                () = &mut deadline => return Err(self.unavailable()),
            }
        }
    }
}
