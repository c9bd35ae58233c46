//! Number, outcome and duration of each built-in tool's runs, in total and per organisation. Memory
//! is bounded: figures are kept for registered tools, the latest runs and the organisations that
//! ran a tool last.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;

use crate::registry::{CallOutcome, Event, Observer};

/// Number of latest runs that the percentile is computed from.
const MAX_RUNS: usize = 256;
/// The same per organisation.
const MAX_RUNS_OF_ORGANISATION: usize = 64;
/// Maximum number of organisations per tool; beyond it, the least recently active is evicted.
const MAX_ORGANISATIONS: usize = 256;

/// Counts the runs of all tools.
#[derive(Default)]
pub(crate) struct Stats(Mutex<HashMap<Arc<str>, Runs>>);

#[derive(Default)]
struct Runs {
    total: Counters,
    organisations: HashMap<Box<str>, Counters>,
}

#[derive(Default)]
struct Counters {
    figures: ToolStats,
    total: Duration,
    latest: Vec<Duration>,
}

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
    /// Returns the statistics of a tool: of an organisation, or in total.
    pub(crate) fn get(&self, tool: &str, organisation: Option<&str>) -> ToolStats {
        let counts = self.0.lock();
        let runs = counts.get(tool);
        let count = runs.and_then(|runs| match organisation {
            Some(organisation) => runs.organisations.get(organisation),
            None => Some(&runs.total),
        });
        let Some(count) = count else { return ToolStats::default() };
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
    fn observe(&self, tool: &Arc<str>, event: Event<'_>) {
        let mut counts = self.0.lock();
        match event {
            Event::Registered => {
                counts.entry(Arc::clone(tool)).or_default();
            }
            Event::Unregistered => {
                counts.remove(tool);
            }
            Event::Executed { took, ended, organisation } => {
                // A run may end after its tool was removed.
                if let Some(runs) = counts.get_mut(tool) {
                    runs.total.add(took, ended, MAX_RUNS);
                    runs.of(organisation).add(took, ended, MAX_RUNS_OF_ORGANISATION);
                }
            }
        }
    }
}

impl Runs {
    fn of(&mut self, organisation: &str) -> &mut Counters {
        if !self.organisations.contains_key(organisation)
            && self.organisations.len() >= MAX_ORGANISATIONS
        {
            let oldest = self.organisations.iter().min_by_key(|(_, count)| count.figures.last);
            if let Some(oldest) = oldest.map(|(name, _)| name.clone()) {
                self.organisations.remove(&oldest);
            }
        }
        self.organisations.entry(organisation.into()).or_default()
    }
}

impl Counters {
    fn add(&mut self, took: Duration, ended: CallOutcome, kept: usize) {
        let at = usize::try_from(self.figures.invocations).unwrap_or(0) % kept;
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

#[cfg(test)]
mod tests;
