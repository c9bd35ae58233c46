//! The built-in tools by name, which is `category/own-name` and unique, and figures of their runs:
//! number, outcome and duration, in total and per organisation. Memory is bounded: figures are kept
//! for registered tools, the latest runs and the organisations that ran a tool last.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use parking_lot::{Mutex, RwLock};

use crate::schema::Schema;
use crate::tool::{AnyTool, ToolSpec};

/// The organisation of callers without an organisation.
pub(crate) const DEFAULT_ORGANISATION: &str = "default";
/// Maximum number of tools per category.
const MAX_TOOLS: usize = 2000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallOutcome {
    Success,
    /// Ended with an `isError` result, or timed out.
    Failure,
    /// The caller disconnected or cancelled the call.
    Cancelled,
}

pub(crate) struct RegisteredTool {
    pub(crate) name: Arc<str>,
    pub(crate) spec: ToolSpec,
    pub(crate) input: Schema,
    pub(crate) tool: Box<dyn AnyTool>,
    /// Shared with the tool of the same name that this one replaces, where runs may still end.
    runs: Arc<Mutex<Runs>>,
}

impl RegisteredTool {
    /// Starts a run on behalf of an organisation. The caller has to set how the run ended;
    /// otherwise it counts as cancelled.
    pub(crate) fn begin<'a>(&'a self, organisation: &'a str) -> Run<'a> {
        Run { tool: self, organisation, began: Instant::now(), ended: CallOutcome::Cancelled }
    }

    /// Returns the figures of an organisation, or in total.
    pub(crate) fn figures(&self, organisation: Option<&str>) -> ToolStats {
        let runs = self.runs.lock();
        let counters = match organisation {
            Some(organisation) => runs.organisations.get(organisation),
            None => Some(&runs.total),
        };
        counters.map(Counters::figures).unwrap_or_default()
    }
}

/// A run of a tool. Counted when dropped.
pub(crate) struct Run<'a> {
    tool: &'a RegisteredTool,
    organisation: &'a str,
    began: Instant,
    pub(crate) ended: CallOutcome,
}

impl Drop for Run<'_> {
    fn drop(&mut self) {
        self.tool.runs.lock().add(self.organisation, self.began.elapsed(), self.ended);
    }
}

#[derive(Default)]
pub(crate) struct Registry(RwLock<BTreeMap<Arc<str>, Arc<RegisteredTool>>>);

/// Returns whether a name consists of characters that every client accepts.
pub(crate) fn is_valid_name(own: &str) -> bool {
    (1..=100).contains(&own.len())
        && own.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.".contains(&b))
}

impl Registry {
    /// Reads the specs of a category's tools, and rejects invalid names and schemas. Changes
    /// nothing. Tools with the name of a registered one share its figures.
    pub(crate) fn prepare(
        &self,
        category: &str,
        tools: Vec<Box<dyn AnyTool>>,
    ) -> Result<Vec<Arc<RegisteredTool>>, String> {
        if tools.len() > MAX_TOOLS {
            return Err(format!(
                "{category} has {} tools, at most {MAX_TOOLS} are possible",
                tools.len()
            ));
        }
        let mut names = HashSet::new();
        let mut entries = Vec::with_capacity(tools.len());
        for tool in tools {
            let spec = tool.describe();
            let name: Arc<str> = (*spec.name).into();
            if spec.category() != category || !is_valid_name(spec.own_name()) {
                return Err(format!(
                    "the tool `{name}` must be named {category}/NAME, of a-z, A-Z, 0-9, _, - and ."
                ));
            }
            let input = Schema::compile(&spec.input);
            let input = input.map_err(|words| format!("{name}: its input schema: {words}"))?;
            if !names.insert(Arc::clone(&name)) {
                return Err(format!("there are two tools named {name}"));
            }
            let known = self.0.read().get(&name).map(|known| Arc::clone(&known.runs));
            let runs = known.unwrap_or_default();
            entries.push(Arc::new(RegisteredTool { name, spec, input, tool, runs }));
        }
        Ok(entries)
    }

    /// Replaces the tools of a category.
    pub(crate) fn install(&self, category: &str, tools: &[Arc<RegisteredTool>]) {
        let mut entries = self.0.write();
        entries.retain(|name, entry| {
            let stays =
                entry.spec.category() != category || tools.iter().any(|tool| tool.name == *name);
            if !stays {
                tracing::info!(tool = %name, "tool unregistered");
            }
            stays
        });
        for tool in tools {
            tracing::debug!(tool = %tool.name, "tool registered");
            entries.insert(Arc::clone(&tool.name), Arc::clone(tool));
        }
    }

    pub(crate) fn all(&self) -> Vec<Arc<RegisteredTool>> {
        self.0.read().values().cloned().collect()
    }
}

/// Number of latest runs that the percentile is computed from.
const MAX_RUNS: usize = 256;
/// The same per organisation.
const MAX_RUNS_OF_ORGANISATION: usize = 64;
/// Maximum number of organisations per tool; beyond it, the least recently active is evicted.
const MAX_ORGANISATIONS: usize = 256;

/// The runs of a tool.
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

impl Runs {
    fn add(&mut self, organisation: &str, took: Duration, ended: CallOutcome) {
        self.total.add(took, ended, MAX_RUNS);
        self.of(organisation).add(took, ended, MAX_RUNS_OF_ORGANISATION);
    }

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
    fn figures(&self) -> ToolStats {
        let mut sorted = self.latest.clone();
        sorted.sort_unstable();
        let at = (sorted.len() * 95).div_ceil(100).saturating_sub(1);
        let runs = u32::try_from(self.figures.invocations).unwrap_or(u32::MAX);
        let average = self.total.checked_div(runs).unwrap_or(Duration::ZERO);
        let p95 = *sorted.get(at).unwrap_or(&Duration::ZERO);
        ToolStats { average, p95, ..self.figures.clone() }
    }

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
