//! Timing of merges: soon after a change, but with pauses proportional to the duration of merges,
//! so that constant changes cannot occupy the gateway.

use std::time::{Duration, Instant};

/// Delay that lets changes accumulate before a merge.
const SETTLE_DELAY: Duration = Duration::from_millis(30);
/// Length of the pause after a merge, in multiples of its duration.
const REST_FACTOR: u32 = 4;
/// Longest pause.
const MAX_REST: Duration = Duration::from_secs(2);

#[derive(Default)]
pub(super) struct Pace {
    /// When the announced changes are to be merged.
    due: Option<Instant>,
    /// End of the pause after the last merge.
    rest_until: Option<Instant>,
}

impl Pace {
    /// Registers a change and returns when to merge.
    pub(super) fn announce(&mut self, now: Instant) -> Instant {
        let soon = now + SETTLE_DELAY;
        let due = self.after_rest(soon);
        *self.due.get_or_insert(due)
    }

    fn after_rest(&self, time: Instant) -> Instant {
        match self.rest_until {
            Some(rest) => rest.max(time),
            None => time,
        }
    }

    /// Registers a change to merge without [`SETTLE_DELAY`], and returns when to merge.
    pub(super) fn hurry(&mut self, now: Instant) -> Instant {
        let soon = self.after_rest(now);
        let due = match self.due {
            Some(due) => due.min(soon),
            None => soon,
        };
        self.due = Some(due);
        due
    }

    /// Takes the announced changes; returns whether there were any.
    pub(super) fn begin(&mut self) -> bool {
        self.due.take().is_some()
    }

    /// Starts the pause after a merge. Returns when to merge the changes announced since the merge
    /// began, if any.
    pub(super) fn merged(&mut self, began: Instant, ended: Instant) -> Option<Instant> {
        let rest = (ended.duration_since(began) * REST_FACTOR).min(MAX_REST);
        self.rest_until = Some(ended + rest);
        if let Some(due) = &mut self.due {
            *due = (*due).max(ended + rest);
        }
        self.due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merging_leaves_most_of_the_time_to_others() {
        let mut pace = Pace::default();
        let begin = Instant::now();
        let ms = Duration::from_millis;
        pace.announce(begin);
        assert_eq!(pace.due, Some(begin + SETTLE_DELAY));
        pace.announce(begin + ms(20));
        assert_eq!(
            pace.due,
            Some(begin + SETTLE_DELAY),
            "the first change is not put off by more of them"
        );
        assert!(pace.begin() && !pace.begin());
        assert_eq!(pace.merged(begin + ms(30), begin + ms(130)), None);
        pace.announce(begin + ms(131));
        assert_eq!(pace.due, Some(begin + ms(530)));
        assert!(pace.begin());
        pace.announce(begin + ms(600));
        let due = pace.merged(begin + ms(530), begin + ms(5530));
        assert_eq!(due, Some(begin + ms(5530) + MAX_REST), "what came meanwhile waits too");
        pace.announce(begin + ms(5531));
        assert_eq!(pace.due, Some(begin + ms(5530) + MAX_REST));
        assert!(pace.begin());
        pace.merged(begin + ms(7600), begin + ms(7601));
        pace.announce(begin + ms(9000));
        assert_eq!(
            pace.due,
            Some(begin + ms(9000) + SETTLE_DELAY),
            "after a quiet time it is merged at once"
        );
        assert_eq!(pace.hurry(begin + ms(9010)), begin + ms(9010), "somebody waits for it");
        assert!(pace.begin());
        pace.merged(begin + ms(9010), begin + ms(9020));
        assert_eq!(pace.hurry(begin + ms(9021)), begin + ms(9060), "but not without end");
    }
}
