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
mod tests {
    use super::*;

    /// Announcements every 10 ms for a minute; gives when lists are read, in milliseconds.
    fn readings(took: u64) -> Vec<u64> {
        let mut rereading = Rereading::new();
        let begin = Instant::now();
        let mut all = Vec::new();
        let mut free = 0;
        let at = |ms: u64| begin + Duration::from_millis(ms);
        for now in (0..60_000).step_by(10) {
            if now < free {
                continue;
            }
            rereading.announce(at(now));
            if rereading.due.is_some_and(|due| due <= at(now)) {
                all.push(now);
                free = now + took;
                rereading.read(at(now), at(now + took));
            }
        }
        all
    }

    #[test]
    fn a_server_that_announces_without_end_is_read_once_a_second() {
        let fast = readings(10);
        assert_eq!(fast[0], 250, "the first change is read soon");
        assert!((58..=62).contains(&fast.len()), "{fast:?}");
        let slow = readings(3000);
        assert!((9..=11).contains(&slow.len()), "a slow one has as long a rest: {slow:?}");
    }

    #[test]
    fn what_is_announced_after_a_reading_is_read_and_a_quiet_server_at_once() {
        let mut rereading = Rereading::new();
        let begin = Instant::now();
        let at = |ms: u64| begin + Duration::from_millis(ms);
        for turn in 0..8 {
            rereading.announce(at(turn * 2000));
            rereading.read(at(turn * 2000), at(turn * 2000));
        }
        assert_eq!(rereading.due, None);
        rereading.announce(at(14_001));
        assert_eq!(rereading.due, Some(at(15_000)), "the last change gets through");
        rereading.read(at(15_000), at(15_000));
        rereading.announce(at(25_000));
        assert_eq!(rereading.due, Some(at(25_250)));
        rereading.suspect(at(25_001));
        assert_eq!(rereading.due, Some(at(25_001)), "a server that may be gone is looked at now");
    }
}
