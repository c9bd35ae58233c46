//! How often each built-in tool ran, how that ended and how long it took. Kept for tools that are
//! registered and for the latest runs alone, so that it never grows.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;

use crate::registry::{CallOutcome, Event, Observer};

/// How many of the latest runs the percentile is taken from.
const KEPT: usize = 256;

/// See the module.
#[derive(Default)]
pub(crate) struct Stats(Mutex<HashMap<Arc<str>, Counters>>);

#[derive(Default)]
struct Counters {
    figures: ToolStats,
    total: Duration,
    latest: Vec<Duration>,
}

/// What is known of one tool's runs.
#[derive(Clone, Debug, Default)]
pub(crate) struct ToolStats {
    pub(crate) invocations: u64,
    pub(crate) successes: u64,
    pub(crate) failures: u64,
    pub(crate) cancelled: u64,
    /// Over all runs.
    pub(crate) average: Duration,
    /// Over the latest runs.
    pub(crate) p95: Duration,
    pub(crate) last: Option<SystemTime>,
}

impl Stats {
    /// The figures of one tool.
    pub(crate) fn get(&self, tool: &str) -> ToolStats {
        let counts = self.0.lock();
        let Some(count) = counts.get(tool) else { return ToolStats::default() };
        let mut sorted = count.latest.clone();
        sorted.sort_unstable();
        let at = (sorted.len() * 95).div_ceil(100).saturating_sub(1);
        let runs = u32::try_from(count.figures.invocations).unwrap_or(u32::MAX);
        let average = count.total.checked_div(runs).unwrap_or(Duration::ZERO);
        let p95 = *sorted.get(at).unwrap_or(&Duration::ZERO);
        ToolStats { average, p95, ..count.figures.clone() }
    }
}

impl Observer for Stats {
    fn observe(&self, tool: &Arc<str>, event: Event) {
        let mut counts = self.0.lock();
        match event {
            Event::Registered => {
                counts.entry(Arc::clone(tool)).or_default();
            }
            Event::Unregistered => {
                counts.remove(tool);
            }
            Event::Executed { took, ended } => {
                // A run may end after its tool has gone.
                if let Some(count) = counts.get_mut(tool) {
                    count.add(took, ended);
                }
            }
        }
    }
}

impl Counters {
    fn add(&mut self, took: Duration, ended: CallOutcome) {
        let at = usize::try_from(self.figures.invocations).unwrap_or(0) % KEPT;
        self.figures.invocations += 1;
        match ended {
            CallOutcome::Success => self.figures.successes += 1,
            CallOutcome::Failure => self.figures.failures += 1,
            CallOutcome::Cancelled => self.figures.cancelled += 1,
        }
        self.figures.last = Some(SystemTime::now());
        self.total += took;
        match self.latest.get_mut(at) {
            Some(slot) => *slot = took,
            None => self.latest.push(took),
        }
    }
}
