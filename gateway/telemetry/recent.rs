//! Recent calls of a server, in equal time steps: ended calls, failed calls, and mean duration. The
//! caller ends each step.

use std::collections::VecDeque;
use std::time::Duration;

use crate::histogram::Counts;

/// Length of a step.
pub const RECENT_STEP: Duration = Duration::from_secs(30);
/// Number of steps kept.
pub const RECENT_STEPS: usize = 60;

/// Calls that ended within one step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecentCalls {
    pub calls: u64,
    pub failed: u64,
    /// `None` without a call.
    pub average: Option<Duration>,
}

/// Cumulative call counts of a server.
#[derive(Debug, Default)]
pub(crate) struct CallCounts {
    /// Calls that reached the server.
    pub(crate) ran: Counts,
    pub(crate) unavailable: u64,
    pub(crate) failed: u64,
}

/// The steps of a server; empty before its first call.
#[derive(Debug, Default)]
pub(crate) struct RecentSteps {
    /// Counts at the start of the current step.
    before: CallCounts,
    over: VecDeque<RecentCalls>,
}

impl RecentSteps {
    /// Ends a step with the current counts.
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

    /// Returns all steps, oldest first, with the current step last.
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
