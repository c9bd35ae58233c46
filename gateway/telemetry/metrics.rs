//! All counted numbers, and lookup of counters by name, with bounds. Lookups take a lock and belong
//! in catalog merges; counting with the returned handles takes none.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use lockgate_text::date::now;
use parking_lot::{Mutex, RwLock};
use prometheus::proto::LabelPair;

use crate::Config;
use crate::audit::AuditCounters;
use crate::counters::{Gauges, Made, Number, ServerMetrics, ToolMetrics};
use crate::labels::{
    Denial, Durations, Notification, OTHER, OperationLabels, Rejection, Unknown, pair,
};

/// Maximum characters of a label value; longer names are truncated.
const MAX_LABEL: usize = 128;
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
pub(crate) const FIRST_STATUS: usize = 100;
const STATUS_COUNT: usize = 900;

/// All exported numbers. Clones share them.
#[derive(Clone)]
pub struct Metrics(pub(crate) Arc<Numbers>);

#[derive(Default)]
pub(crate) struct Numbers {
    pub(crate) made: Made,
    /// Policy denials by rule. Rule names come from the operator; names from callers are never
    /// stored.
    pub(crate) denials: RwLock<BTreeMap<Arc<str>, [AtomicU64; Denial::ALL.len()]>>,
    pub(crate) unknown: [AtomicU64; Unknown::ALL.len()],
    /// HTTP responses by status, from [`FIRST_STATUS`] on.
    pub(crate) statuses: Vec<AtomicU64>,
    /// Failed and successful reloads of the configuration.
    pub(crate) reloads: [AtomicU64; 2],
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
    pub(crate) rejections: [AtomicU64; Rejection::ALL.len()],
    pub(crate) lost_spans: Arc<Number>,
    /// Unset if no lines are exported.
    pub(crate) lost_logs: OnceLock<Arc<Number>>,
    pub(crate) audit: Arc<AuditCounters>,
    /// Bound on the tools of the operator's servers, and on those of organisations.
    tools: usize,
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

lockgate_text::debug_fields!(Metrics);

impl Metrics {
    pub fn new(config: &Config) -> Self {
        let statuses = (0..STATUS_COUNT).map(|_| AtomicU64::new(0)).collect();
        let numbers = Numbers { tools: config.export.tools, statuses, ..Numbers::default() };
        // The process starts with a valid configuration.
        numbers.gauges.is_reloaded.set(1);
        numbers.gauges.reloaded_at.set(now());
        Self(Arc::new(numbers))
    }

    /// Returns the counters of a tool, creating them if new. Beyond `Config::tools` distinct tools,
    /// further tools of a server share counters. Organisations have a common bound of the same
    /// size, and each may take only a part of it.
    pub fn tool(&self, organisation: Option<&str>, server: &str, tool: &str) -> Arc<ToolMetrics> {
        let tool = bounded(tool);
        let mut all = self.0.servers.lock();
        if let Some(known) = all.entry(organisation, server).tools.get(&tool) {
            return known.clone();
        }
        let is_full = all.is_full(organisation, self.0.tools, |entry| entry.tools.len());
        let entry = all.entry(organisation, server);
        if is_full {
            return entry.other_tools();
        }
        let new = Arc::new(ToolMetrics::new(entry.server.clone(), entry.is_other));
        entry.tools.insert(tool, new.clone());
        new
    }

    /// Returns the shared counters of a server's tools beyond the bound.
    pub fn other_tools(&self, organisation: Option<&str>, server: &str) -> Arc<ToolMetrics> {
        self.0.servers.lock().entry(organisation, server).other_tools()
    }

    /// Returns the counters of a server, creating them if new.
    pub fn server(&self, organisation: Option<&str>, slug: &str) -> Arc<ServerMetrics> {
        self.0.servers.lock().entry(organisation, slug).server.clone()
    }

    /// Returns the separate counters of a server, if it has any.
    pub fn find_server(
        &self,
        organisation: Option<&str>,
        slug: &str,
    ) -> Option<Arc<ServerMetrics>> {
        let servers = self.0.servers.lock();
        let entry = servers.by_label.get(&ServerLabel::new(organisation, slug))?;
        if entry.is_other { None } else { Some(Arc::clone(&entry.server)) }
    }

    /// Ends a step of the recent calls of all servers.
    pub fn end_step(&self) {
        let servers = self.0.servers.lock();
        let all: Vec<_> =
            servers.by_label.values().map(|entry| Arc::clone(&entry.server)).collect();
        drop(servers);
        for server in all {
            server.end_step();
        }
    }

    /// Removes tools that a server no longer offers. Call this with each new catalog, so that a
    /// server that keeps renaming its tools cannot exhaust the common bound.
    pub fn keep_tools<'a>(
        &self,
        organisation: Option<&str>,
        server: &str,
        offered: impl IntoIterator<Item = &'a str>,
    ) {
        let offered: BTreeSet<String> = offered.into_iter().map(bounded).collect();
        let mut servers = self.0.servers.lock();
        if let Some(entry) = servers.by_label.get_mut(&ServerLabel::new(organisation, server)) {
            entry.tools.retain(|tool, _| offered.contains(tool));
        }
    }

    /// Removes a server that is no longer configured, with its tools. Existing handles remain valid
    /// but are not exported.
    pub fn remove_server(&self, organisation: Option<&str>, slug: &str) {
        self.0.servers.lock().by_label.remove(&ServerLabel::new(organisation, slug));
    }

    /// Returns the numbers that are counted elsewhere.
    pub fn gauges(&self) -> &Gauges {
        &self.0.gauges
    }

    /// Returns the counters of the audit trail.
    pub fn audit(&self) -> &Arc<AuditCounters> {
        &self.0.audit
    }

    /// Counts a notification that a call awaits approval.
    pub fn notified(&self, outcome: Notification) {
        self.0.notifications[outcome as usize].fetch_add(1, Relaxed);
    }

    /// Counts a request to the server of embeddings, by whether it returned vectors.
    pub fn embedded(&self, is_success: bool) {
        self.0.embeddings[usize::from(is_success)].fetch_add(1, Relaxed);
    }

    /// Counts a request rejected before it became a call.
    pub fn rejected(&self, why: Rejection) {
        self.0.rejections[why as usize].fetch_add(1, Relaxed);
    }

    /// Counts a request that policy denied, or that a dry-run rule would have denied.
    pub fn denied(&self, rule: &str, why: Denial) {
        if let Some(counts) = self.0.denials.read().get(rule) {
            counts[why as usize].fetch_add(1, Relaxed);
            return;
        }
        let mut by_rule = self.0.denials.write();
        let is_full = by_rule.len() >= MAX_RULES && !by_rule.contains_key(rule);
        let rule = if is_full { OTHER } else { rule };
        by_rule.entry(rule.into()).or_default()[why as usize].fetch_add(1, Relaxed);
    }

    /// Counts a request with an unknown name.
    pub fn named_unknown(&self, what: Unknown) {
        self.0.unknown[what as usize].fetch_add(1, Relaxed);
    }

    /// Counts an HTTP response.
    pub fn responded(&self, status: u16) {
        let place = usize::from(status).wrapping_sub(FIRST_STATUS);
        if let Some(counter) = self.0.statuses.get(place) {
            counter.fetch_add(1, Relaxed);
        }
    }

    /// Counts a changed configuration, by whether it took effect.
    pub fn reloaded(&self, is_success: bool) {
        self.0.reloads[usize::from(is_success)].fetch_add(1, Relaxed);
        self.0.gauges.is_reloaded.set(u64::from(is_success));
        if is_success {
            self.0.gauges.reloaded_at.set(now());
        }
    }

    /// Counts a client's request, under its tool if it exists.
    pub fn served(&self, tool: Option<&ToolMetrics>, labels: OperationLabels, duration: Duration) {
        match tool {
            Some(tool) => tool.served.observe(labels, duration),
            None => self.0.served.observe(labels, duration),
        }
    }

    /// Counts an ended client session.
    pub fn session_ended(&self, labels: OperationLabels, duration: Duration) {
        self.0.sessions_ended.observe(labels, duration);
    }

    /// Sets the exported key sets.
    pub fn set_key_sets(&self, sets: Vec<KeySet>) {
        *self.0.key_sets.lock() = sets;
    }

    /// Sets the exported expiry of certificates, in Unix seconds.
    pub fn set_certificates(&self, expiries: Vec<(&'static str, i64)>) {
        *self.0.certificates.lock() = expiries;
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ServerLabel {
    /// `None` for the operator's servers.
    organisation: Option<String>,
    slug: String,
}

#[derive(Default)]
pub(crate) struct Servers {
    pub(crate) by_label: BTreeMap<ServerLabel, ServerEntry>,
}

#[derive(Default)]
pub(crate) struct ServerEntry {
    /// Set for the entry of all servers beyond the bound.
    is_other: bool,
    pub(crate) server: Arc<ServerMetrics>,
    pub(crate) tools: BTreeMap<String, Arc<ToolMetrics>>,
    pub(crate) other: Option<Arc<ToolMetrics>>,
}

impl ServerEntry {
    /// Returns the shared counters of tools beyond the bound.
    fn other_tools(&mut self) -> Arc<ToolMetrics> {
        let server = &self.server;
        let other =
            self.other.get_or_insert_with(|| Arc::new(ToolMetrics::new(server.clone(), true)));
        Arc::clone(other)
    }
}

impl ServerLabel {
    fn new(organisation: Option<&str>, slug: &str) -> Self {
        Self { organisation: organisation.map(bounded), slug: bounded(slug) }
    }

    pub(crate) fn pairs(&self) -> Vec<LabelPair> {
        let mut pairs = vec![pair("server", &self.slug)];
        pairs.extend(self.organisation.as_ref().map(|name| pair(ORGANISATION, name)));
        pairs
    }
}

impl Servers {
    /// Returns the entry of a server, or the shared entry if the bound is reached.
    fn entry(&mut self, organisation: Option<&str>, slug: &str) -> &mut ServerEntry {
        let label = ServerLabel::new(organisation, slug);
        let own = label.organisation.as_deref();
        if own.is_some()
            && !self.by_label.contains_key(&label)
            && self.is_full(own, MAX_OWN, |entry| usize::from(!entry.is_other))
        {
            let shared =
                ServerLabel { organisation: Some(OTHER.to_owned()), slug: OTHER.to_owned() };
            let other = self.by_label.entry(shared).or_default();
            other.is_other = true;
            return other;
        }
        self.by_label.entry(label).or_default()
    }

    /// Returns whether a bound is reached: `most` each for the operator's servers and for those of
    /// organisations, of which an organisation may take a part. `count` is of a server's entry.
    fn is_full(
        &self,
        organisation: Option<&str>,
        most: usize,
        count: fn(&ServerEntry) -> usize,
    ) -> bool {
        let mut all = 0;
        let mut own = 0;
        for (label, entry) in &self.by_label {
            let known = label.organisation.as_deref();
            all += if known.is_some() == organisation.is_some() { count(entry) } else { 0 };
            own += if known == organisation { count(entry) } else { 0 };
        }
        let part = (most / ORGANISATION_DIVISOR).max(1);
        all >= most || organisation.is_some() && own >= part
    }
}

/// Returns a label value of bounded length without control characters. A tool named `other` is
/// renamed to differ from the shared counters.
fn bounded(name: &str) -> String {
    if name == OTHER {
        return "other_".to_owned();
    }
    let first = name.chars().take(MAX_LABEL);
    first.map(|c| if c.is_control() { '?' } else { c }).collect()
}

#[cfg(test)]
mod tests;
