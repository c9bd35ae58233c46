//! When a server that is down is tried again: by itself, or sooner because somebody calls it.
//! However many callers there are, one attempt is made at a time.

use std::time::Duration;

use futures_util::FutureExt;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

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
    /// When the next one begins by itself, and when it may begin because of a call; none while one
    /// is made.
    next: Option<(Instant, Instant)>,
}

impl Default for Recovery {
    fn default() -> Self {
        Self { wanted: Notify::new(), state: Mutex::new(Attempts { failed: 0, next: None }) }
    }
}

impl Recovery {
    /// An attempt has failed after so long, or without a time a connection was lost; the next one
    /// comes after `pause`, or sooner when somebody wants it.
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

    pub(crate) fn failed(&self) -> u64 {
        self.state.lock().failed
    }

    /// Asks for an attempt. False when none comes soon.
    pub(crate) fn want(&self) -> bool {
        let next = self.state.lock().next;
        let Some((due, allowed)) = next else { return true };
        if due.min(allowed) > Instant::now() + REST {
            return false;
        }
        self.wanted.notify_one();
        true
    }
}
