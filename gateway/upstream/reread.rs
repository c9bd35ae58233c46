//! When a server's lists are read again: soon after it tells of a change, and the less often the
//! longer it goes on telling. What it told last is always read.

use std::time::{Duration, Instant};

/// Changes within this time are read once.
const SETTLE: Duration = Duration::from_millis(250);
/// The longest pause between readings that went fast; it begins with `SETTLE` and doubles.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// A server that told of nothing for so long begins with the short pause anew.
const QUIET: Duration = Duration::from_secs(5);

/// See the module.
pub(crate) struct Rereading {
    due: Option<Instant>,
    /// The latest reading ended then.
    ended: Option<Instant>,
    pause: Duration,
}

impl Rereading {
    pub(crate) fn new() -> Self {
        Self { due: None, ended: None, pause: SETTLE }
    }

    /// The server says that a list has changed.
    pub(crate) fn announce(&mut self, now: Instant) {
        let soon = now + SETTLE;
        let Some(ended) = self.ended else {
            self.due.get_or_insert(soon);
            return;
        };
        if self.due.is_none() && now > ended + QUIET.max(self.pause) {
            self.pause = SETTLE;
        }
        self.due.get_or_insert(soon.max(ended + self.pause));
    }

    /// A list of one client has changed, which the client may use at once: the first reading does
    /// not wait for further changes.
    pub(crate) fn announce_own(&mut self, now: Instant) {
        if self.ended.is_none_or(|ended| now > ended + QUIET.max(self.pause)) {
            self.pause = SETTLE;
            self.due = Some(now);
        } else {
            self.announce(now);
        }
    }

    /// A call could not connect: the server may be gone, which reading shows. Sooner than an
    /// announcement, once in a while.
    pub(crate) fn suspect(&mut self, now: Instant) {
        let earliest = self.ended.map_or(now, |ended| now.max(ended + SETTLE));
        self.due = Some(self.due.map_or(earliest, |due| due.min(earliest)));
    }

    /// The lists have been read in this time. The next reading waits at least as long as this one
    /// took.
    pub(crate) fn read(&mut self, began: Instant, ended: Instant) {
        self.pause = (self.pause * 2).min(LONGEST_PAUSE).max(ended.duration_since(began));
        (self.due, self.ended) = (None, Some(ended));
    }

    /// Waits until the lists are to be read; for ever while nothing is announced. Cancel safe.
    pub(crate) async fn wait(&self) {
        match self.due {
            Some(due) => tokio::time::sleep_until(due.into()).await,
            None => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests;
