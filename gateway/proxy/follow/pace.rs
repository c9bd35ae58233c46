//! When changes of servers are merged: soon after one is told of, but merging leaves most of the
//! time to others however many servers change without end.

use std::time::{Duration, Instant};

/// Changes within this time are merged once.
const SETTLE: Duration = Duration::from_millis(30);
/// After merging there is a pause of so many times as long as it took.
const REST_FACTOR: u32 = 4;
/// The longest such pause.
const LONGEST_REST: Duration = Duration::from_secs(2);

/// See the module.
#[derive(Default)]
pub(super) struct Pace {
    /// When the changes that were announced are to be merged.
    due: Option<Instant>,
    /// Nothing is merged before.
    rest_until: Option<Instant>,
}

impl Pace {
    /// Something has changed.
    pub(super) fn announce(&mut self, now: Instant) {
        let soon = now + SETTLE;
        self.due.get_or_insert(self.rest_until.map_or(soon, |rest| rest.max(soon)));
    }

    /// What was announced has been merged in this time.
    pub(super) fn merged(&mut self, began: Instant, ended: Instant) {
        self.due = None;
        self.rest_until =
            Some(ended + (ended.duration_since(began) * REST_FACTOR).min(LONGEST_REST));
    }

    /// Waits until something is to be merged; for ever while nothing is announced. Cancel safe.
    pub(super) async fn wait(&self) {
        match self.due {
            Some(due) => tokio::time::sleep_until(due.into()).await,
            None => std::future::pending().await,
        }
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
        assert_eq!(pace.due, Some(begin + SETTLE));
        pace.announce(begin + ms(20));
        assert_eq!(
            pace.due,
            Some(begin + SETTLE),
            "the first change is not put off by more of them"
        );
        pace.merged(begin + ms(30), begin + ms(130));
        assert_eq!(pace.due, None);
        pace.announce(begin + ms(131));
        assert_eq!(pace.due, Some(begin + ms(530)));
        pace.merged(begin + ms(530), begin + ms(5530));
        pace.announce(begin + ms(5531));
        assert_eq!(pace.due, Some(begin + ms(5530) + LONGEST_REST));
        pace.merged(begin + ms(7600), begin + ms(7601));
        pace.announce(begin + ms(9000));
        assert_eq!(
            pace.due,
            Some(begin + ms(9000) + SETTLE),
            "after a quiet time it is merged at once"
        );
    }
}
