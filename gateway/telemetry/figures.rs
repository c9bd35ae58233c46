//! Figures of tools and servers for display. A tool's figures can be reset: its counters continue,
//! and their values at the reset are subtracted.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use crate::histogram::Counts;
use crate::labels::{OUTCOMES, Outcome};

/// The figures of a tool's calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolFigures {
    /// Earlier calls are not counted.
    pub since: SystemTime,
    /// Calls that were not denied.
    pub invocations: u64,
    pub successes: u64,
    /// Failures of the tool, its server or the connection.
    pub failures: u64,
    /// Calls cancelled by their clients.
    pub cancelled: u64,
    /// `None` without a call.
    pub average: Option<Duration>,
    /// Estimated from a histogram.
    pub p95: Option<Duration>,
    /// The end of the last call.
    pub last: Option<SystemTime>,
}

/// Call figures of a server's tools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerFigures {
    /// Earlier calls are not counted.
    pub since: SystemTime,
    pub calls: u64,
    /// Failed calls by failure type.
    pub errors: BTreeMap<&'static str, u64>,
    /// Estimated from a histogram; `None` without a call.
    pub p50: Option<Duration>,
    pub p95: Option<Duration>,
}

const FAILED: [Outcome; 4] =
    [Outcome::ToolError, Outcome::ProtocolError, Outcome::Timeout, Outcome::Unavailable];

/// A snapshot of counter values.
#[derive(Debug)]
pub(crate) struct Baseline {
    at: SystemTime,
    pub(crate) calls: [u64; OUTCOMES],
    pub(crate) durations: Counts,
}

impl Baseline {
    pub(crate) fn new(at: SystemTime) -> Self {
        Self { at, calls: [0; OUTCOMES], durations: Counts::default() }
    }

    /// Returns the difference to an earlier point in time; `last` is the end of the last call.
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
