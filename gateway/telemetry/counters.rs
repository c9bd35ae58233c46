//! Counters of the request path: atomics behind handles that are resolved before a call. Counting
//! takes no lock, and allocates only for a new set of labels.

use std::collections::{BTreeMap, VecDeque};
use std::ops::AddAssign;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU8, AtomicU64};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime};

use parking_lot::Mutex;

use crate::histogram::{Counts, Histogram};
use crate::labels::{Durations, FailureType, OperationLabels, Outcome, ServerState};

/// Distinct operations per tool, and per server besides those of its tools.
const MAX_OPERATIONS_OF_TOOL: usize = 16;
const MAX_OPERATIONS_OF_SERVER: usize = 64;
/// Distinct sessions per server.
const MAX_SESSIONS: usize = 16;

/// Counters of one tool of a server, or of all its further tools under the name `other`.
#[derive(Debug)]
pub struct ToolMetrics {
    server: Arc<ServerMetrics>,
    /// Several tools share these counters.
    is_shared: bool,
    calls: [AtomicU64; Outcome::ALL.len()],
    /// Durations of calls that reached the server.
    pub(crate) durations: Histogram,
    /// Calls by the conventions: clients' calls to the gateway, and the gateway's to the server.
    pub(crate) served: Durations<MAX_OPERATIONS_OF_TOOL>,
    pub(crate) asked: Durations<MAX_OPERATIONS_OF_TOOL>,
    made: Made,
    /// Microseconds from `made` to the end of the last call; 0 before.
    last: AtomicU64,
    /// Counts at the last reset, excluded from the figures.
    baseline: Mutex<Baseline>,
}

/// The creation time of counters, on both clocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Made {
    instant: Instant,
    pub(crate) time: SystemTime,
}

impl Default for Made {
    fn default() -> Self {
        Self { instant: Instant::now(), time: SystemTime::now() }
    }
}

impl ToolMetrics {
    pub(crate) fn new(server: Arc<ServerMetrics>, is_shared: bool) -> Self {
        let made = Made::default();
        Self {
            server,
            is_shared,
            calls: Default::default(),
            durations: Histogram::default(),
            served: Durations::default(),
            asked: Durations::default(),
            made,
            last: AtomicU64::new(0),
            baseline: Mutex::new(Baseline {
                at: made.time,
                calls: Default::default(),
                durations: Counts::default(),
            }),
        }
    }

    /// Counts a completed call. Its duration enters the histograms only if it reached the server:
    /// denials and unavailable servers are no measure of call durations.
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

    /// Records the time at which a call ended.
    pub fn ended(&self, at: Instant) {
        let since = at.saturating_duration_since(self.made.instant).as_micros();
        self.last.store(u64::try_from(since).unwrap_or(u64::MAX).max(1), Relaxed);
    }

    /// Returns the number of calls with this outcome.
    pub fn count(&self, outcome: Outcome) -> u64 {
        self.calls[outcome as usize].load(Relaxed)
    }

    /// Returns the server that this tool is counted under.
    pub fn server(&self) -> &Arc<ServerMetrics> {
        &self.server
    }

    /// Returns the tool's figures since its creation or the last reset; `None` if other tools share
    /// the counters.
    pub fn figures(&self) -> Option<ToolFigures> {
        if self.is_shared {
            return None;
        }
        let mut now = self.now();
        let before = self.baseline.lock();
        for (calls, before) in now.calls.iter_mut().zip(before.calls) {
            *calls = calls.saturating_sub(before);
        }
        let durations = now.durations.since(&before.durations);
        let last = match self.last.load(Relaxed) {
            0 => None,
            micros => Some(self.made.time + Duration::from_micros(micros)),
        };
        let failures = FAILED.iter().map(|outcome| now.calls[*outcome as usize]).sum();
        Some(ToolFigures {
            since: before.at,
            invocations: durations.count() + now.calls[Outcome::Unavailable as usize],
            successes: now.calls[Outcome::Ok as usize],
            failures,
            cancelled: now.calls[Outcome::Cancelled as usize],
            average: durations.average(),
            p95: durations.percentile(95),
            last: last.filter(|last| *last >= before.at),
        })
    }

    /// Resets the figures. Exported metrics are unaffected.
    pub fn reset(&self) {
        *self.baseline.lock() = self.now();
    }

    fn now(&self) -> Baseline {
        let calls = Outcome::ALL.map(|outcome| self.count(outcome));
        Baseline { at: SystemTime::now(), calls, durations: self.durations.counts() }
    }
}

/// Counters of a server, whose first state is pending.
#[derive(Debug, Default)]
pub struct ServerMetrics {
    /// Durations of calls that reached the server.
    pub(crate) durations: Histogram,
    /// Calls that did not reach the server.
    unavailable: AtomicU64,
    /// Requests of the gateway to the server, and sessions with it.
    pub(crate) asked: Durations<MAX_OPERATIONS_OF_SERVER>,
    pub(crate) sessions: Durations<MAX_SESSIONS>,
    failures: [AtomicU64; FailureType::ALL.len()],
    made: Made,
    state: AtomicU8,
    pub numbers: ServerNumbers,
    /// Unset for servers without limits of their own.
    pub(crate) load: OnceLock<ServerLoad>,
    recent: Mutex<RecentSteps>,
}

impl ServerMetrics {
    /// Counts a failed tool call.
    pub fn failed(&self, kind: FailureType) {
        self.failures[kind as usize].fetch_add(1, Relaxed);
    }

    /// Counts a request to the server, under its tool if any.
    pub fn asked(&self, tool: Option<&ToolMetrics>, labels: OperationLabels, duration: Duration) {
        match tool {
            Some(tool) => tool.asked.observe(labels, duration),
            None => self.asked.observe(labels, duration),
        }
    }

    /// Counts an ended session with the server.
    pub fn session_ended(&self, labels: OperationLabels, duration: Duration) {
        self.sessions.observe(labels, duration);
    }

    pub(crate) fn end_step(&self) {
        self.recent.lock().end_step(self.call_counts());
    }

    /// Returns the recent calls of the server's tools, oldest step first.
    pub fn recent_calls(&self) -> Vec<RecentCalls> {
        self.recent.lock().list(&self.call_counts())
    }

    fn call_counts(&self) -> CallCounts {
        let failed = self.failures.iter().map(|count| count.load(Relaxed)).sum();
        let unavailable = self.unavailable.load(Relaxed);
        CallCounts { ran: self.durations.counts(), unavailable, failed }
    }

    /// Returns the figures since the creation of the counters.
    pub fn figures(&self) -> ServerFigures {
        let durations = self.durations.counts();
        let errors = FailureType::ALL
            .map(|kind| (kind.as_str(), self.failures[kind as usize].load(Relaxed)));
        ServerFigures {
            since: self.made.time,
            calls: durations.count() + self.unavailable.load(Relaxed),
            errors: errors.into(),
            p50: durations.percentile(50),
            p95: durations.percentile(95),
        }
    }

    /// Sets the state, exported as a gauge per state with the value 1 for the current state.
    pub fn set_state(&self, state: ServerState) {
        self.state.store(state as u8, Relaxed);
    }

    pub(crate) fn is(&self, state: ServerState) -> bool {
        self.state.load(Relaxed) == state as u8
    }

    /// Returns the load, which is exported from now on.
    pub fn load(&self) -> &ServerLoad {
        self.load.get_or_init(ServerLoad::default)
    }
}

/// A number that is counted here, or elsewhere and set.
#[derive(Debug, Default)]
pub struct Number(AtomicU64);

impl Number {
    pub fn add(&self, many: u64) {
        self.0.fetch_add(many, Relaxed);
    }

    pub fn set(&self, value: impl TryInto<u64>) {
        self.0.store(value.try_into().unwrap_or(u64::MAX), Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// Name and help of a family.
pub(crate) type Named = (&'static str, &'static str);

/// Declares numbers with their exported names, and further fields. The documentation of each number
/// is its help.
macro_rules! numbers {
    ($(#[$meta:meta])* pub struct $numbers:ident {
        $($(#[doc = $help:literal])+ $field:ident = $name:literal,)+
        $(; $($further:tt)+)?
    }) => {
        $(#[$meta])*
        #[derive(Debug, Default)]
        pub struct $numbers { $($(#[doc = $help])+ pub $field: Number,)+ $($($further)+)? }

        impl $numbers {
            /// Returns the values with their names.
            pub(crate) fn read(&self) -> Vec<($crate::counters::Named, u64)> {
                vec![$((($name, concat!($($help),+).trim_ascii_start()), self.$field.get()),)+]
            }
        }
    };
}
pub(crate) use numbers;

numbers! {
    /// Numbers of the gateway that are counted elsewhere.
    pub struct Gauges {
        /// Open legacy sessions
        sessions = "lockgate_sessions",
        /// Calls waiting for an answer from their client
        parked = "lockgate_parked_calls",
        /// Calls waiting for an approval or an answer from a person
        approvals = "lockgate_approvals_waiting",
        /// Open event streams to clients
        streams = "lockgate_streams",
        /// Requests in progress
        in_flight = "lockgate_requests_in_flight",
        /// Requests waiting for a free slot
        queued = "lockgate_requests_queued",
        /// Bytes of messages in memory
        bytes_in_flight = "lockgate_bytes_in_flight",
        /// Limit on bytes of messages in memory
        bytes_limit = "lockgate_bytes_in_flight_limit",
        /// Messages refused or dropped for lack of memory
        refused_for_memory = "lockgate_messages_refused_for_memory_total",
        /// 1 while the store of shared rates cannot be reached
        shared_rates_away = "lockgate_shared_rates_away",
        /// 1 while the files match the configuration in force, 0 while they have errors
        is_reloaded = "lockgate_config_last_reload_successful",
        /// Time at which the configuration in force was read, in Unix seconds
        reloaded_at = "lockgate_config_last_reload_success_timestamp_seconds",
    }
}

numbers! {
    /// Numbers of a server.
    pub struct ServerNumbers {
        /// Tools hidden until they are approved (`lockgate pins`)
        quarantined = "lockgate_server_tools_quarantined",
        /// Restarts and reconnections of a server
        restarts = "lockgate_server_restarts_total",
        /// Changes of a server's lists, found when they were read again
        list_changes = "lockgate_server_list_changes_total",
    }
}

numbers! {
    /// The load of a server, with its limits.
    pub struct ServerLoad {
        /// Calls in progress at a server
        running = "lockgate_server_calls_running",
        /// Limit on concurrent calls at a server (concurrency)
        concurrency = "lockgate_server_calls_limit",
        /// Calls waiting for a free slot at a server
        waiting = "lockgate_server_calls_waiting",
        /// Limit on calls waiting at a server (queue)
        queue = "lockgate_server_calls_queue",
        /// Timeout of a call to a server
        timeout = "lockgate_server_timeout_seconds",
        /// 1 while calls to a server are paused because it keeps failing
        is_paused = "lockgate_server_breaker_open",
    }
}

// Recent calls of a server, in equal time steps: ended calls, failed calls, and mean duration. The
// caller ends each step.

/// Length of a step.
pub const RECENT_STEP: Duration = Duration::from_secs(30);
/// Number of steps kept.
pub const RECENT_STEPS: usize = 60;

/// Calls that ended within one step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecentCalls {
    pub calls: u64,
    pub failed: u64,
    /// Calls that reached the server, and the sum of their durations in microseconds.
    pub ran: u64,
    pub micros: u64,
}

impl RecentCalls {
    /// Returns the average duration; `None` without a call that reached the server.
    pub fn average(&self) -> Option<Duration> {
        Some(Duration::from_micros(self.micros.checked_div(self.ran)?))
    }
}

impl AddAssign for RecentCalls {
    fn add_assign(&mut self, other: Self) {
        self.calls += other.calls;
        self.failed += other.failed;
        self.ran += other.ran;
        self.micros += other.micros;
    }
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
        let mut all = Vec::from(self.over.clone());
        all.push(self.going_on(now));
        all
    }

    fn going_on(&self, now: &CallCounts) -> RecentCalls {
        let ran = now.ran.since(&self.before.ran);
        RecentCalls {
            calls: ran.count() + now.unavailable.saturating_sub(self.before.unavailable),
            failed: now.failed.saturating_sub(self.before.failed),
            ran: ran.count(),
            micros: ran.sum,
        }
    }
}

// Figures of tools and servers for display. A tool's figures can be reset: its counters continue,
// and their values at the reset are subtracted.

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
struct Baseline {
    at: SystemTime,
    calls: [u64; Outcome::ALL.len()],
    durations: Counts,
}

#[cfg(test)]
mod tests;
