//! The schedule of attempts to reconnect a server that is down: after a pause, or sooner on behalf
//! of a call. Attempts never run concurrently, however many callers there are.

use std::time::Duration;

use futures_util::FutureExt;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Shortest time between a failed attempt and the next attempt on behalf of a call.
const MIN_RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// The same as a multiple of the failed attempt's duration, however many calls arrive.
const RETRY_FACTOR: u32 = 2;

pub(crate) struct Recovery {
    wanted: Notify,
    state: Mutex<Attempts>,
}

struct Attempts {
    failed: u64,
    /// When the next attempt starts by itself, and the earliest time on behalf of a call; `None`
    /// during an attempt.
    next: Option<(Instant, Instant)>,
}

impl Default for Recovery {
    fn default() -> Self {
        Self { wanted: Notify::new(), state: Mutex::new(Attempts { failed: 0, next: None }) }
    }
}

impl Recovery {
    /// Schedules the next attempt after `pause`, or sooner on behalf of a call. `failed_after` is
    /// the duration of a failed attempt; `None` if an established connection was lost.
    pub(crate) fn schedule(&self, failed_after: Option<Duration>, pause: Duration) {
        let now = Instant::now();
        let rest = failed_after
            .map_or(MIN_RETRY_INTERVAL, |took| MIN_RETRY_INTERVAL.max(took * RETRY_FACTOR));
        let mut state = self.state.lock();
        state.failed += u64::from(failed_after.is_some());
        state.next = Some((now + pause, now + rest));
    }

    pub(crate) async fn wait(&self) {
        let next = self.state.lock().next;
        let Some((due, allowed)) = next else { return };
        tokio::select! {
            () = tokio::time::sleep_until(due) => {}
            () = self.wanted.notified() => tokio::time::sleep_until(due.min(allowed)).await,
        }
        self.state.lock().next = None;
        // Clears earlier requests: the attempt that starts now serves them.
        let _ = self.wanted.notified().now_or_never();
    }

    pub(crate) fn failed(&self) -> u64 {
        self.state.lock().failed
    }

    /// Requests an attempt. Returns false if none starts soon.
    pub(crate) fn want(&self) -> bool {
        let next = self.state.lock().next;
        let Some((due, allowed)) = next else { return true };
        if due.min(allowed) > Instant::now() + MIN_RETRY_INTERVAL {
            return false;
        }
        self.wanted.notify_one();
        true
    }
}
