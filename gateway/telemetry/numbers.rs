//! All counted numbers: handles add to them, and the exporter reads them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use prometheus::proto::LabelPair;

use crate::audit::AuditCounters;
use crate::counters::{Gauge, Made, ServerMetrics, ToolMetrics};
use crate::durations::Durations;
use crate::labels::{Denial, Notification, OTHER, Rejection, Unknown, pair};

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
pub(crate) const MAX_RULES: usize = 1024;
/// The range of HTTP statuses, 100 to 999.
pub(crate) const FIRST_STATUS: usize = 100;
const STATUS_COUNT: usize = 900;

#[derive(Default)]
pub(crate) struct Numbers {
    pub(crate) made: Made,
    /// Policy denials by rule. Rule names come from the operator; names from callers are never
    /// stored.
    pub(crate) denials: RwLock<BTreeMap<Arc<str>, [AtomicU64; Denial::ALL.len()]>>,
    /// Requests for unknown names.
    pub(crate) unknown: [AtomicU64; Unknown::ALL.len()],
    pub(crate) statuses: Statuses,
    /// Failed and successful reloads of the configuration.
    pub(crate) reloads: [AtomicU64; 2],
    pub(crate) has_failed_reload: AtomicBool,
    /// Time of the last successful reload, in Unix seconds.
    pub(crate) last_reload: AtomicU64,
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
    /// Bound of [`Servers::has_too_many_tools`].
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

    pub(crate) fn pairs(&self) -> Vec<LabelPair> {
        let mut pairs = vec![pair("server", &self.slug)];
        if let Some(organisation) = &self.organisation {
            pairs.push(pair(ORGANISATION, organisation));
        }
        pairs
    }
}

impl Servers {
    /// Returns the entry of a label, or the shared entry if the bound is reached.
    pub(crate) fn entry(&mut self, label: ServerLabel) -> &mut ServerEntry {
        if !self.by_label.contains_key(&label) && self.has_too_many(&label) {
            let other = self.by_label.entry(ServerLabel::other()).or_default();
            other.is_other = true;
            return other;
        }
        self.by_label.entry(label).or_default()
    }

    fn has_too_many(&self, label: &ServerLabel) -> bool {
        let mut all = 0;
        let mut own = 0;
        for (known, entry) in &self.by_label {
            all += usize::from(known.organisation.is_some() && !entry.is_other);
            own += usize::from(known.organisation == label.organisation);
        }
        label.organisation.is_some() && (all >= MAX_OWN || own >= MAX_OWN / ORGANISATION_DIVISOR)
    }

    /// Returns whether a further tool must share counters, given a bound of `most` tools each for
    /// the operator's servers and for those of organisations.
    pub(crate) fn has_too_many_tools(&self, organisation: Option<&str>, most: usize) -> bool {
        let mut all = 0;
        let mut own = 0;
        for (known, entry) in &self.by_label {
            let known = known.organisation.as_deref();
            all += if known.is_some() == organisation.is_some() { entry.tools.len() } else { 0 };
            own += if known == organisation { entry.tools.len() } else { 0 };
        }
        let part = (most / ORGANISATION_DIVISOR).max(1);
        all >= most || organisation.is_some() && own >= part
    }
}

/// HTTP responses by status. Every status has a counter from the start.
pub(crate) struct Statuses(pub(crate) [AtomicU64; STATUS_COUNT]);

impl Default for Statuses {
    fn default() -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}
