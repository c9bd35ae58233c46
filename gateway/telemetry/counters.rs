//! What the request path counts with: plain atomics behind handles that are resolved before a call
//! comes. Nothing here locks or allocates after it was made.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU8, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant, SystemTime};

use parking_lot::Mutex;

use crate::durations::{Durations, OperationLabels};
use crate::figures::{Baseline, ServerFigures, ToolFigures};
use crate::histogram::{Histogram, Snapshot};
use crate::labels::{FailureType, OUTCOMES, Outcome, ServerState};
use crate::recent::{CallCounts, RecentCalls, RecentSteps};

/// Operations that are told apart, of one tool, and of one server besides those of its tools.
const OF_TOOL: usize = 16;
const OF_SERVER: usize = 64;
/// Sessions of one server that are told apart.
const SESSIONS: usize = 16;

/// Counters of one tool of one server, or of all further tools of a server under the name `other`.
#[derive(Debug)]
pub struct ToolMetrics {
    server: Arc<ServerMetrics>,
    /// More than one tool is counted here.
    is_shared: bool,
    calls: [AtomicU64; OUTCOMES],
    /// Of the calls that reached the server.
    durations: Histogram,
    /// Calls by the conventions: as clients see them, and as the server does.
    pub(crate) served: Durations<OF_TOOL>,
    pub(crate) asked: Durations<OF_TOOL>,
    made: Made,
    /// Microseconds from `made` to the end of the last of those calls; 0 without one.
    last: AtomicU64,
    /// What the figures for people leave out since they were reset.
    baseline: Mutex<Option<Box<Baseline>>>,
}

/// When counters began, on both clocks.
#[derive(Clone, Copy, Debug)]
struct Made {
    instant: Instant,
    time: SystemTime,
}

impl Made {
    fn now() -> Self {
        Self { instant: Instant::now(), time: SystemTime::now() }
    }
}

impl ToolMetrics {
    pub(crate) fn new(server: Arc<ServerMetrics>, is_shared: bool) -> Self {
        Self {
            server,
            is_shared,
            calls: Default::default(),
            durations: Histogram::default(),
            served: Durations::default(),
            asked: Durations::default(),
            made: Made::now(),
            last: AtomicU64::new(0),
            baseline: Mutex::default(),
        }
    }

    /// Counts one call that has ended. Its duration goes to the histograms if it reached the
    /// server: neither denials nor calls for a server that is away say how long one takes.
    pub fn record(&self, outcome: Outcome, duration: Duration) {
        self.calls[outcome as usize].fetch_add(1, Relaxed);
        match outcome {
            Outcome::Denied => {}
            Outcome::Unavailable => {
                self.server.unavailable.fetch_add(1, Relaxed);
            }
            _ => {
                self.server.durations.observe(duration);
                self.durations.observe(duration);
            }
        }
    }

    /// Notes when a call has ended.
    pub fn ended(&self, at: Instant) {
        let since = at.saturating_duration_since(self.made.instant).as_micros();
        self.last.store(u64::try_from(since).unwrap_or(u64::MAX).max(1), Relaxed);
    }

    /// Of calls that reached the server.
    pub(crate) fn durations(&self) -> Snapshot {
        self.durations.snapshot()
    }

    /// Calls that ended this way.
    pub fn count(&self, outcome: Outcome) -> u64 {
        self.calls[outcome as usize].load(Relaxed)
    }

    /// The server that this tool is counted under.
    pub fn server(&self) -> &Arc<ServerMetrics> {
        &self.server
    }

    /// What became of its calls, since they were counted or since the figures were reset; none
    /// where other tools are counted with it.
    pub fn figures(&self) -> Option<ToolFigures> {
        if self.is_shared {
            return None;
        }
        let now = self.now();
        let baseline = self.baseline.lock();
        let last = self.last.load(Relaxed);
        let last = match last {
            0 => None,
            micros => Some(self.made.time + Duration::from_micros(micros)),
        };
        Some(match &*baseline {
            Some(baseline) => now.figures_since(baseline, last),
            None => now.figures_since(&Baseline::new(self.made.time), last),
        })
    }

    /// The figures begin anew. What is exported as metrics goes on.
    pub fn reset(&self) {
        *self.baseline.lock() = Some(Box::new(self.now()));
    }

    fn now(&self) -> Baseline {
        let mut now = Baseline::new(SystemTime::now());
        now.durations = self.durations.counts();
        for (outcome, calls) in Outcome::ALL.iter().zip(&mut now.calls) {
            *calls = self.count(*outcome);
        }
        now
    }
}

/// Counters of one server.
#[derive(Debug)]
pub struct ServerMetrics {
    /// Of the calls that reached it.
    pub(crate) durations: Histogram,
    /// Calls that did not.
    unavailable: AtomicU64,
    /// What the gateway asks of it, and sessions with it.
    pub(crate) asked: Durations<OF_SERVER>,
    pub(crate) sessions: Durations<SESSIONS>,
    failures: [AtomicU64; FailureType::ALL.len()],
    since: SystemTime,
    state: AtomicU8,
    restarts: AtomicU64,
    list_changes: AtomicU64,
    quarantined: AtomicU64,
    bounds: Mutex<Option<Bounds>>,
    recent: Mutex<RecentSteps>,
}

/// How a server stands with its bounds.
#[derive(Clone, Debug)]
pub struct Bounds {
    /// Calls that run, and how many may.
    pub running: usize,
    pub concurrency: usize,
    /// Calls that wait for a place, and how many may.
    pub waiting: usize,
    pub queue: usize,
    /// For one call.
    pub timeout: Duration,
    /// The breaker lets no calls through, or one to try.
    pub open: bool,
}

/// Counters that nothing exports yet.
impl Default for ServerMetrics {
    fn default() -> Self {
        Self {
            durations: Histogram::default(),
            unavailable: AtomicU64::new(0),
            asked: Durations::default(),
            sessions: Durations::default(),
            failures: Default::default(),
            since: SystemTime::now(),
            state: AtomicU8::new(ServerState::Pending as u8),
            restarts: AtomicU64::new(0),
            list_changes: AtomicU64::new(0),
            quarantined: AtomicU64::new(0),
            bounds: Mutex::new(None),
            recent: Mutex::default(),
        }
    }
}

impl ServerMetrics {
    /// Counts one call of a tool that has failed.
    pub fn failed(&self, kind: FailureType) {
        self.failures[kind as usize].fetch_add(1, Relaxed);
    }

    /// The server was asked something, about this tool if it is one.
    pub fn asked(&self, tool: Option<&ToolMetrics>, labels: OperationLabels, duration: Duration) {
        match tool {
            Some(tool) => tool.asked.observe(labels, duration),
            None => self.asked.observe(labels, duration),
        }
    }

    /// A session with it is over.
    pub fn session_ended(&self, labels: OperationLabels, duration: Duration) {
        self.sessions.observe(labels, duration);
    }

    /// A step of what is shown of late is over.
    pub(crate) fn end_step(&self) {
        self.recent.lock().end_step(self.call_counts());
    }

    /// What became of the calls of its tools of late.
    pub(crate) fn recent_calls(&self) -> Vec<RecentCalls> {
        self.recent.lock().list(&self.call_counts())
    }

    fn call_counts(&self) -> CallCounts {
        let mut failed = 0;
        for count in &self.failures {
            failed += count.load(Relaxed);
        }
        let unavailable = self.unavailable.load(Relaxed);
        CallCounts { ran: self.durations.counts(), unavailable, failed }
    }

    /// What became of the calls of its tools.
    pub(crate) fn figures(&self) -> ServerFigures {
        let durations = self.durations.counts();
        let mut errors = BTreeMap::new();
        for kind in FailureType::ALL {
            errors.insert(kind.as_str(), self.failures[*kind as usize].load(Relaxed));
        }
        ServerFigures {
            since: self.since,
            calls: durations.count() + self.unavailable.load(Relaxed),
            errors,
            p50: durations.percentile(50),
            p95: durations.percentile(95),
        }
    }

    /// Exported as one gauge per state, 1 for this one and 0 for the others.
    pub fn set_state(&self, state: ServerState) {
        self.state.store(state as u8, Relaxed);
    }

    pub(crate) fn is(&self, state: ServerState) -> bool {
        self.state.load(Relaxed) == state as u8
    }

    /// The server was started or connected again.
    pub fn restarted(&self) {
        self.restarts.fetch_add(1, Relaxed);
    }

    /// The server's lists were read again and differ.
    pub fn list_changed(&self) {
        self.list_changes.fetch_add(1, Relaxed);
    }

    /// Tools that are neither listed nor callable until somebody approves them.
    pub fn set_quarantined(&self, tools: usize) {
        self.quarantined.store(tools as u64, Relaxed);
    }

    /// Exported as they were last told; nothing before.
    pub fn set_load(&self, bounds: &Bounds) {
        *self.bounds.lock() = Some(bounds.clone());
    }

    pub(crate) fn bounds(&self) -> Option<Bounds> {
        self.bounds.lock().clone()
    }

    pub(crate) fn quarantined(&self) -> u64 {
        self.quarantined.load(Relaxed)
    }

    pub(crate) fn restarts(&self) -> u64 {
        self.restarts.load(Relaxed)
    }

    pub(crate) fn list_changes(&self) -> u64 {
        self.list_changes.load(Relaxed)
    }
}

/// A number that goes up and down, such as open sessions. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Gauge(Arc<AtomicI64>);

impl Gauge {
    /// One more, until the returned value is dropped.
    #[must_use = "the gauge goes down again when this is dropped"]
    pub fn enter(&self) -> Entered {
        self.0.fetch_add(1, Relaxed);
        Entered(self.0.clone())
    }

    /// For numbers that are counted elsewhere.
    pub fn set(&self, value: usize) {
        self.0.store(i64::try_from(value).unwrap_or(i64::MAX), Relaxed);
    }

    pub fn get(&self) -> i64 {
        self.0.load(Relaxed)
    }
}

/// Holds a [`Gauge`] up by one.
#[derive(Debug)]
pub struct Entered(Arc<AtomicI64>);

impl Drop for Entered {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}
