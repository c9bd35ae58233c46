//! The schedule of list reads: soon after a server announces a change, and less often the longer it
//! keeps announcing. The last announcement is always followed by a read.

use std::time::{Duration, Instant};

/// Changes within this time are read once.
const SETTLE_DELAY: Duration = Duration::from_millis(250);
/// Longest pause between quick reads; the pause starts at `SETTLE_DELAY` and doubles.
const MAX_PAUSE: Duration = Duration::from_secs(1);
/// Time without announcements that resets the pause.
const QUIET_PERIOD: Duration = Duration::from_secs(5);
/// Interval between reads while the lists cannot be read.
const RETRY_INTERVAL: Duration = Duration::from_secs(30);

pub(crate) struct Rereading {
    due: Option<Instant>,
    /// When the latest read ended.
    ended: Option<Instant>,
    pause: Duration,
}

impl Rereading {
    pub(crate) fn new() -> Self {
        Self { due: None, ended: None, pause: SETTLE_DELAY }
    }

    pub(crate) fn announce(&mut self, now: Instant) {
        let soon = now + SETTLE_DELAY;
        let Some(ended) = self.ended else {
            self.due.get_or_insert(soon);
            return;
        };
        if self.due.is_none() && now > ended + QUIET_PERIOD.max(self.pause) {
            self.pause = SETTLE_DELAY;
        }
        // Sooner than a retry, which may be due later.
        let at = soon.max(ended + self.pause);
        self.due = Some(self.due.map_or(at, |due| due.min(at)));
    }

    /// Schedules a read after a change for a client, which may use it at once: the first read
    /// does not wait for further changes.
    pub(crate) fn announce_own(&mut self, now: Instant) {
        if self.ended.is_none_or(|ended| now > ended + QUIET_PERIOD.max(self.pause)) {
            self.pause = SETTLE_DELAY;
            self.due = Some(now);
        } else {
            self.announce(now);
        }
    }

    /// Schedules a read after a call could not connect, which reveals whether the server is gone.
    /// Sooner than for an announcement, but limited in rate.
    pub(crate) fn suspect(&mut self, now: Instant) {
        let earliest = self.ended.map_or(now, |ended| now.max(ended + SETTLE_DELAY));
        self.due = Some(self.due.map_or(earliest, |due| due.min(earliest)));
    }

    /// Records a read. The next read waits for at least the duration of this read.
    pub(crate) fn read(&mut self, began: Instant, ended: Instant) {
        self.pause = (self.pause * 2).min(MAX_PAUSE).max(ended.duration_since(began));
        (self.due, self.ended) = (None, Some(ended));
    }

    /// Schedules another read after lists could not be read.
    pub(crate) fn retry(&mut self, now: Instant) {
        self.due.get_or_insert(now + RETRY_INTERVAL);
    }

    /// Waits until a read is due; pending while nothing was announced. Cancel safe.
    pub(crate) async fn wait(&self) {
        match self.due {
            Some(due) => tokio::time::sleep_until(due.into()).await,
            None => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests;
