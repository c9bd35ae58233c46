//! Coalescing of resource updates: the first update is sent at once, and further updates within a
//! window are sent once at its end.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use lockgate_upstream::{ServerId, Subscription};

/// Window in which updates of a resource are coalesced.
const COALESCE_WINDOW: Duration = Duration::from_millis(250);
/// Limit on tracked resources; updates of others are all sent.
const MAX_RESOURCES: usize = 4096;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Update {
    pub(super) server: ServerId,
    pub(super) uri: Arc<str>,
    pub(super) on: Subscription,
}

#[derive(Default)]
pub(super) struct Updates {
    /// Updates within their window, and whether they were repeated since they were sent.
    recent: HashMap<Update, bool>,
    /// Ends of the windows, in ascending order.
    ends: VecDeque<(Instant, Update)>,
}

impl Updates {
    /// Returns whether to send the update now.
    pub(super) fn admit(&mut self, update: &Update, now: Instant) -> bool {
        if let Some(again) = self.recent.get_mut(update) {
            *again = true;
            return false;
        }
        if self.recent.len() < MAX_RESOURCES {
            self.begin(update.clone(), now);
        }
        true
    }

    fn begin(&mut self, update: Update, now: Instant) {
        self.recent.insert(update.clone(), false);
        self.ends.push_back((now + COALESCE_WINDOW, update));
    }

    /// Returns the updates that were repeated within their window, which has ended.
    pub(super) fn take_due(&mut self, now: Instant) -> Vec<Update> {
        let mut due = Vec::new();
        while let Some((_, update)) = self.ends.pop_front_if(|(end, _)| *end <= now) {
            if self.recent.remove(&update) == Some(true) {
                self.begin(update.clone(), now);
                due.push(update);
            }
        }
        due
    }

    /// Waits until a window ends, forever if there is none. Cancel safe.
    pub(super) async fn wait(&self) {
        match self.ends.front() {
            Some((end, _)) => tokio::time::sleep_until((*end).into()).await,
            None => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server() -> ServerId {
        ServerId::shared("a")
    }

    #[test]
    fn a_burst_is_told_at_its_start_and_at_its_end() {
        let mut updates = Updates::default();
        let begin = Instant::now();
        let one = Update { server: server(), uri: "test://one".into(), on: Subscription::Shared };
        let two = Update { uri: "test://two".into(), ..one.clone() };
        assert!(updates.admit(&one, begin));
        assert!(updates.admit(&two, begin));
        let elsewhere = Update { on: Subscription::Session(7), ..one.clone() };
        assert!(updates.admit(&elsewhere, begin), "another connection is another matter");
        let of_acme = ServerId { organisation: Some("acme".into()), ..server() };
        let foreign = Update { server: of_acme, ..one.clone() };
        assert!(updates.admit(&foreign, begin), "another organisation's server is another one");
        for _ in 0..100 {
            assert!(!updates.admit(&one, begin + COALESCE_WINDOW / 2));
        }
        assert_eq!(updates.take_due(begin + COALESCE_WINDOW / 2), []);
        assert_eq!(
            updates.take_due(begin + COALESCE_WINDOW).as_slice(),
            std::slice::from_ref(&one)
        );
        assert!(!updates.admit(&one, begin + COALESCE_WINDOW), "the next window has begun");
        assert_eq!(updates.take_due(begin + COALESCE_WINDOW * 2), [one]);
        assert_eq!(updates.take_due(begin + COALESCE_WINDOW * 3), []);
        assert!(updates.recent.is_empty() && updates.ends.is_empty());
    }

    #[test]
    fn no_more_is_remembered_than_its_bound() {
        let mut updates = Updates::default();
        let begin = Instant::now();
        for number in 0..MAX_RESOURCES + 10 {
            let uri = format!("test://{number}").into();
            let update = Update { server: server(), uri, on: Subscription::Shared };
            assert!(updates.admit(&update, begin));
        }
        assert_eq!(updates.recent.len(), MAX_RESOURCES);
    }
}
