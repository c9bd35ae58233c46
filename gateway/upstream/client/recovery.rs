//! The way of a call to a server that is not connected: it waits a little for one that is coming up, and has one that is down
//! tried at once, unless that has just been done. However many callers there are, one attempt is made at a time.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::Shared;
use crate::connection::Connection;
use crate::failure::Failure;
use crate::status::State;

/// How long a call waits for a server that is just starting or reconnecting.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long it waits for one that has failed and is tried again.
const RETRY_PATIENCE: Duration = Duration::from_secs(2);
/// The least time between a failed attempt and the next one that is made because of a call.
const REST: Duration = Duration::from_secs(1);
/// Attempts take no larger share of the time than one in so many, however many calls come.
const SHARE: u32 = 2;

/// When a server that is down is tried again.
pub(crate) struct Recovery {
    wanted: Notify,
    state: Mutex<Attempts>,
}

struct Attempts {
    /// So many have failed.
    failed: u64,
    /// When the next one begins by itself, and when it may begin because of a call; none while one is made.
    next: Option<(Instant, Instant)>,
}

impl Default for Recovery {
    fn default() -> Self {
        Self { wanted: Notify::new(), state: Mutex::new(Attempts { failed: 0, next: None }) }
    }
}

impl Recovery {
    /// An attempt has failed after so long, or without a time a connection was lost; the next one comes after `pause`, or
    /// sooner when somebody wants it.
    pub(crate) fn schedule(&self, failed_after: Option<Duration>, pause: Duration) {
        let now = Instant::now();
        let rest = failed_after.map_or(REST, |took| REST.max(took * SHARE));
        let mut state = self.state.lock();
        state.failed += u64::from(failed_after.is_some());
        state.next = Some((now + pause, now + rest));
    }

    /// Waits for the time of the next attempt.
    pub(crate) async fn wait(&self) {
        let next = self.state.lock().next;
        let Some((due, allowed)) = next else { return };
        tokio::select! {
            () = tokio::time::sleep_until(due) => {}
            () = self.wanted.notified() => tokio::time::sleep_until(due.min(allowed)).await,
        }
        self.state.lock().next = None;
        // Who wanted it while it was about to begin has it.
        let _ = self.wanted.notified().now_or_never();
    }

    fn failed(&self) -> u64 {
        self.state.lock().failed
    }

    /// Asks for an attempt. False when none comes soon.
    fn want(&self) -> bool {
        let next = self.state.lock().next;
        let Some((due, allowed)) = next else { return true };
        if due.min(allowed) > Instant::now() + REST {
            return false;
        }
        self.wanted.notify_one();
        true
    }
}

impl Shared {
    /// The connection that everybody shares, once there is one.
    pub(super) async fn coming_up(&self) -> Result<Arc<Connection>, Failure> {
        let failed = self.recovery.failed();
        let patience = if self.status.load().state == State::Failed { RETRY_PATIENCE } else { PATIENCE };
        let mut deadline = std::pin::pin!(tokio::time::sleep(patience.min(self.config.call_timeout)));
        loop {
            let changed = self.changed.notified();
            if let Some(connection) = self.live.load_full() {
                return Ok(connection);
            }
            match self.status.load().state {
                // Without a connection they have just lost it.
                State::Pending | State::Connected | State::Unresponsive => {}
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
