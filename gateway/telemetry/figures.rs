//! What counters say of a tool or a server to a person who asks. Figures of a tool can be reset:
//! the counters go on, and what they were then is left out.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use crate::histogram::Counts;
use crate::labels::{OUTCOMES, Outcome};

/// What became of the calls of a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolFigures {
    /// Calls before it are not counted.
    pub since: SystemTime,
    /// Calls that were not denied.
    pub invocations: u64,
    pub successes: u64,
    /// The tool, its server or the connection to that failed.
    pub failures: u64,
    /// Given up by their clients.
    pub cancelled: u64,
    /// None without a call.
    pub average: Option<Duration>,
    /// Estimated from a histogram.
    pub p95: Option<Duration>,
    /// When the last call ended.
    pub last: Option<SystemTime>,
}

/// What became of the calls of a server's tools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerFigures {
    /// Calls before it are not counted.
    pub since: SystemTime,
    pub calls: u64,
    /// Of those, by where they failed.
    pub errors: BTreeMap<&'static str, u64>,
    /// Estimated from a histogram; none without a call.
    pub p50: Option<Duration>,
    pub p95: Option<Duration>,
}

/// Calls that ended in one of these ways have failed.
const FAILED: [Outcome; 4] =
    [Outcome::ToolError, Outcome::ProtocolError, Outcome::Timeout, Outcome::Unavailable];

/// What counters were at one moment.
#[derive(Debug)]
pub(crate) struct Baseline {
    at: SystemTime,
    /// By outcome.
    pub(crate) calls: [u64; OUTCOMES],
    pub(crate) durations: Counts,
}

impl Baseline {
    pub(crate) fn new(at: SystemTime) -> Self {
        Self { at, calls: [0; OUTCOMES], durations: Counts::default() }
    }

    /// What was added since an earlier moment; `last` is when the last call ended.
    pub(crate) fn figures_since(&self, earlier: &Self, last: Option<SystemTime>) -> ToolFigures {
        let durations = self.durations.since(&earlier.durations);
        let mut failures = 0;
        for outcome in FAILED {
            failures += self.added(earlier, outcome);
        }
        ToolFigures {
            since: earlier.at,
            invocations: durations.count() + self.added(earlier, Outcome::Unavailable),
            successes: self.added(earlier, Outcome::Ok),
            failures,
            cancelled: self.added(earlier, Outcome::Cancelled),
            average: durations.average(),
            p95: durations.percentile(95),
            last: last.filter(|last| *last >= earlier.at),
        }
    }

    fn added(&self, earlier: &Self, outcome: Outcome) -> u64 {
        let before = earlier.calls[outcome as usize];
        self.calls[outcome as usize].saturating_sub(before)
    }
}
