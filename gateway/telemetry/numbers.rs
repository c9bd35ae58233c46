//! All counted numbers: handles add to them, and the exporter reads them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::{Mutex, RwLock};

use crate::audit::AuditCounters;
use crate::counters::{Gauge, Made, ServerMetrics, ToolMetrics};
use crate::durations::Durations;
use crate::labels::{Denial, Notification, OTHER, Rejection, Unknown};

/// The label of servers that belong to an organisation.
pub(crate) const ORGANISATION: &str = "organisation";
/// Distinct operations and sessions of clients, besides tool calls.
const MAX_OPERATIONS: usize = 256;
const MAX_SESSIONS: usize = 16;
/// Servers of organisations that are counted individually.
const MAX_OWN: usize = 1024;
/// An organisation may take the bounds on servers and tools divided by this number.
const ORGANISATION_DIVISOR: usize = 8;
/// Rules counted individually, because reloads may add any number of them.
const MAX_RULES: usize = 1024;
/// The range of HTTP statuses, 100 to 999.
const FIRST_STATUS: usize = 100;
const STATUS_COUNT: usize = 900;

#[derive(Default)]
pub(crate) struct Numbers {
    pub(crate) made: Made,
    pub(crate) denials: Denials,
    pub(crate) statuses: Statuses,
    pub(crate) reloads: Reloads,
    pub(crate) key_sets: Mutex<Vec<KeySet>>,
    /// Names of certificates, and their expiry in Unix seconds.
    pub(crate) certificates: Mutex<Vec<(&'static str, i64)>>,
    pub(crate) servers: Mutex<Servers>,
    pub(crate) served: Durations<MAX_OPERATIONS>,
    pub(crate) sessions_ended: Durations<MAX_SESSIONS>,
    pub(crate) gauges: Gauges,
    /// Failed and successful requests for embeddings.
    pub(crate) embeddings: [AtomicU64; 2],
    pub(crate) notifications: [AtomicU64; Notification::ALL.len()],
    pub(crate) refused_for_memory: AtomicU64,
    pub(crate) rejections: [AtomicU64; Rejection::ALL.len()],
    pub(crate) lost_spans: Arc<AtomicU64>,
    /// Unset if no lines are exported.
    pub(crate) lost_logs: OnceLock<Arc<AtomicU64>>,
    pub(crate) audit: Arc<AuditCounters>,
    /// Bound on each of `Servers::tools`.
    pub(crate) tools: usize,
}

/// Numbers that can decrease.
#[derive(Debug, Default)]
pub struct Gauges {
    /// Legacy sessions.
    pub sessions: Gauge,
    /// Event streams to clients.
    pub streams: Gauge,
    /// Calls that await their clients' answers.
    pub parked: Gauge,
    /// Calls that await approval.
    pub approvals: Gauge,
    /// Running requests.
    pub in_flight: Gauge,
    pub queued: Gauge,
    /// Bytes of messages in memory, and their limit.
    pub bytes_in_flight: Gauge,
    pub bytes_limit: Gauge,
    /// 1 while the store of shared rates is unreachable.
    pub shared_rates_away: Gauge,
}

/// The current keys of one token issuer.
#[derive(Clone, Debug)]
pub struct KeySet {
    pub issuer: String,
    /// Usable keys.
    pub keys: usize,
    /// Time since the last fetch; `None` before the first fetch.
    pub age: Option<Duration>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ServerLabel {
    /// `None` for the operator's servers.
    pub(crate) organisation: Option<String>,
    pub(crate) slug: String,
}

#[derive(Default)]
pub(crate) struct Servers {
    pub(crate) by_label: BTreeMap<ServerLabel, ServerEntry>,
    /// Individually counted tools of the operator's servers, and of those of organisations.
    pub(crate) tools: [usize; 2],
    /// Servers of organisations.
    own: usize,
}

#[derive(Default)]
pub(crate) struct ServerEntry {
    /// Set for the entry of all servers beyond the bound.
    pub(crate) is_other: bool,
    pub(crate) server: Arc<ServerMetrics>,
    pub(crate) tools: BTreeMap<String, Arc<ToolMetrics>>,
    pub(crate) other: Option<Arc<ToolMetrics>>,
}

impl ServerEntry {
    /// Returns the shared counters of tools beyond the bound.
    pub(crate) fn other_tools(&mut self) -> Arc<ToolMetrics> {
        let server = &self.server;
        let other =
            self.other.get_or_insert_with(|| Arc::new(ToolMetrics::new(server.clone(), true)));
        Arc::clone(other)
    }
}

impl ServerLabel {
    /// Returns the label of all organisation servers beyond the bound.
    fn other() -> Self {
        Self { organisation: Some(OTHER.to_owned()), slug: OTHER.to_owned() }
    }

    pub(crate) fn pairs(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let organisation = self.organisation.as_deref();
        let organisation = organisation.map(|organisation| (ORGANISATION, organisation));
        std::iter::once(("server", self.slug.as_str())).chain(organisation)
    }
}

impl Servers {
    /// Returns the entry of a label, or the shared entry if the bound is reached.
    pub(crate) fn entry(&mut self, label: ServerLabel) -> &mut ServerEntry {
        let is_own = label.organisation.is_some();
        let is_new = !self.by_label.contains_key(&label);
        if is_new && self.has_too_many(label.organisation.as_deref()) {
            let other = self.by_label.entry(ServerLabel::other()).or_default();
            other.is_other = true;
            return other;
        }
        self.own += usize::from(is_own && is_new);
        self.by_label.entry(label).or_default()
    }

    fn has_too_many(&self, organisation: Option<&str>) -> bool {
        let Some(organisation) = organisation else { return false };
        self.own >= MAX_OWN || self.of(organisation).count() >= MAX_OWN / ORGANISATION_DIVISOR
    }

    /// Returns whether a further tool must share counters, given a bound of `most` tools.
    pub(crate) fn has_too_many_tools(&self, organisation: Option<&str>, most: usize) -> bool {
        let counted = self.tools[usize::from(organisation.is_some())];
        let Some(organisation) = organisation else { return counted >= most };
        let mut own = 0;
        for entry in self.of(organisation) {
            own += entry.tools.len();
        }
        counted >= most || own >= (most / ORGANISATION_DIVISOR).max(1)
    }

    /// Returns the servers of an organisation.
    fn of(&self, organisation: &str) -> impl Iterator<Item = &ServerEntry> {
        let first =
            ServerLabel { organisation: Some(organisation.to_owned()), slug: String::new() };
        let own = first.organisation.clone();
        let following = self.by_label.range(first..);
        following.take_while(move |(label, _)| label.organisation == own).map(|(_, entry)| entry)
    }

    pub(crate) fn remove(&mut self, label: &ServerLabel) {
        let Some(entry) = self.by_label.remove(label) else { return };
        let is_own = label.organisation.is_some();
        self.own -= usize::from(is_own);
        self.tools[usize::from(is_own)] -= entry.tools.len();
    }

    pub(crate) fn each_server(&self, mut see: impl FnMut(&ServerLabel, &ServerMetrics)) {
        for (label, entry) in &self.by_label {
            see(label, &entry.server);
        }
    }

    pub(crate) fn each_tool(&self, mut see: impl FnMut(&ServerLabel, &str, &ToolMetrics)) {
        for (label, entry) in &self.by_label {
            for (tool, metrics) in &entry.tools {
                see(label, tool, metrics);
            }
            if let Some(other) = &entry.other {
                see(label, OTHER, other);
            }
        }
    }
}

type Counts = [AtomicU64; Denial::ALL.len()];

/// Policy denials by rule, and requests for unknown names. Rule names come from the operator; names
/// from callers are never stored.
#[derive(Default)]
pub(crate) struct Denials {
    by_rule: RwLock<BTreeMap<Arc<str>, Counts>>,
    unknown: [AtomicU64; Unknown::ALL.len()],
}

impl Denials {
    pub(crate) fn count(&self, rule: &str, why: Denial) {
        if let Some(counts) = self.by_rule.read().get(rule) {
            counts[why as usize].fetch_add(1, Relaxed);
            return;
        }
        let mut by_rule = self.by_rule.write();
        let is_full = by_rule.len() >= MAX_RULES && !by_rule.contains_key(rule);
        let rule = if is_full { OTHER } else { rule };
        let counts = by_rule.entry(rule.into()).or_default();
        counts[why as usize].fetch_add(1, Relaxed);
    }

    pub(crate) fn count_unknown(&self, what: Unknown) {
        self.unknown[what as usize].fetch_add(1, Relaxed);
    }

    /// Passes all counts above zero to `see`.
    pub(crate) fn each(&self, mut see: impl FnMut(&str, Denial, u64)) {
        for (rule, counts) in &*self.by_rule.read() {
            for why in Denial::ALL {
                let count = counts[why as usize].load(Relaxed);
                if count > 0 {
                    see(rule, why, count);
                }
            }
        }
    }

    pub(crate) fn unknown(&self, what: Unknown) -> u64 {
        self.unknown[what as usize].load(Relaxed)
    }
}

/// HTTP responses by status. Every status has a counter from the start.
pub(crate) struct Statuses([AtomicU64; STATUS_COUNT]);

impl Default for Statuses {
    fn default() -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}

impl Statuses {
    pub(crate) fn count(&self, status: u16) {
        if let Some(counter) = self.0.get(usize::from(status).wrapping_sub(FIRST_STATUS)) {
            counter.fetch_add(1, Relaxed);
        }
    }

    /// Passes all counts above zero to `see`.
    pub(crate) fn each(&self, mut see: impl FnMut(usize, u64)) {
        for (at, counter) in self.0.iter().enumerate() {
            let count = counter.load(Relaxed);
            if count > 0 {
                see(FIRST_STATUS + at, count);
            }
        }
    }
}

/// Configuration reloads, and the time of the last success.
pub(crate) struct Reloads {
    /// Failed and successful reloads.
    outcomes: [AtomicU64; 2],
    has_failed: AtomicBool,
    /// Unix seconds.
    last_success: AtomicU64,
}

/// The process starts with a valid configuration.
impl Default for Reloads {
    fn default() -> Self {
        Self {
            outcomes: Default::default(),
            has_failed: AtomicBool::new(false),
            last_success: AtomicU64::new(now()),
        }
    }
}

impl Reloads {
    pub(crate) fn count(&self, is_success: bool) {
        self.outcomes[usize::from(is_success)].fetch_add(1, Relaxed);
        self.has_failed.store(!is_success, Relaxed);
        if is_success {
            self.last_success.store(now(), Relaxed);
        }
    }

    pub(crate) fn of(&self, is_success: bool) -> u64 {
        self.outcomes[usize::from(is_success)].load(Relaxed)
    }

    /// Returns whether the files match the configuration in force.
    pub(crate) fn is_current(&self) -> bool {
        !self.has_failed.load(Relaxed)
    }

    pub(crate) fn last_success(&self) -> u64 {
        self.last_success.load(Relaxed)
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
