//! What became of a server's calls of late, in even steps of time: how many ended, how many of them
//! failed, and how long they took. Somebody has to say when a step is over.

use std::collections::VecDeque;
use std::time::Duration;

use crate::histogram::Counts;

/// How long one step is.
pub const RECENT_STEP: Duration = Duration::from_secs(30);
/// Steps that are kept.
pub const RECENT_STEPS: usize = 60;

/// Calls that ended within one step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecentCalls {
    pub calls: u64,
    pub failed: u64,
    /// None without a call.
    pub average: Option<Duration>,
}

/// What was counted of the calls of one server until some moment.
#[derive(Debug, Default)]
pub(crate) struct CallCounts {
    /// Calls that reached the server.
    pub(crate) ran: Counts,
    /// Calls that did not.
    pub(crate) unavailable: u64,
    pub(crate) failed: u64,
}

/// The steps of one server; none before its first call.
#[derive(Debug, Default)]
pub(crate) struct RecentSteps {
    /// What was counted when the step began that goes on.
    before: CallCounts,
    over: VecDeque<RecentCalls>,
}

impl RecentSteps {
    /// A step is over; these were counted until then.
    pub(crate) fn end_step(&mut self, now: CallCounts) {
        if self.over.is_empty() && now.ran.count() + now.unavailable == 0 {
            return;
        }
        if self.over.len() == RECENT_STEPS {
            self.over.pop_front();
        }
        let step = self.going_on(&now);
        self.over.push_back(step);
        self.before = now;
    }

    /// The steps from the oldest to the one that goes on.
    pub(crate) fn list(&self, now: &CallCounts) -> Vec<RecentCalls> {
        let mut all = Vec::with_capacity(self.over.len() + 1);
        all.extend(&self.over);
        all.push(self.going_on(now));
        all
    }

    fn going_on(&self, now: &CallCounts) -> RecentCalls {
        let ran = now.ran.since(&self.before.ran);
        RecentCalls {
            calls: ran.count() + now.unavailable.saturating_sub(self.before.unavailable),
            failed: now.failed.saturating_sub(self.before.failed),
            average: ran.average(),
        }
    }
}

#[cfg(test)]
mod tests;
