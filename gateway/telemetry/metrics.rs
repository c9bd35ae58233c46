//! Lookup of counters by name, with bounds, and their export. Lookups take a lock and belong in
//! catalog merges; counting with the returned handles takes none.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::audit::AuditCounters;
use crate::config::Config;
use crate::counters::{RecentCalls, ServerFigures, ServerMetrics, ToolMetrics};
use crate::durations::OperationLabels;
use crate::labels::{Denial, Notification, OTHER, Rejection, Unknown};
use crate::numbers::{FIRST_STATUS, Gauges, KeySet, MAX_RULES, Numbers, ORGANISATION, ServerLabel};
use crate::readings::render;

/// Maximum characters of a label value; longer names are truncated.
const MAX_LABEL: usize = 128;

/// Labels with values that only operators may read.
const PRIVATE: [&str; 5] = [ORGANISATION, "server", "tool", "rule", "issuer"];

/// All exported numbers. Clones share them.
#[derive(Clone)]
pub struct Metrics {
    numbers: Arc<Numbers>,
}

impl std::fmt::Debug for Metrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Metrics")
            .field("servers", &self.numbers.servers.lock().by_label.len())
            .finish_non_exhaustive()
    }
}

impl Metrics {
    pub fn new(config: &Config) -> Self {
        let numbers = Numbers { tools: config.tools, ..Numbers::default() };
        // The process starts with a valid configuration.
        numbers.last_reload.store(now(), Relaxed);
        Self { numbers: Arc::new(numbers) }
    }

    /// Returns the counters of a tool, creating them if new. Beyond `Config::tools` distinct tools,
    /// further tools of a server share counters. Organisations have a common bound of the same
    /// size, and each may take only a part of it.
    pub fn tool(&self, organisation: Option<&str>, server: &str, tool: &str) -> Arc<ToolMetrics> {
        let tool = label(tool);
        let mut all = self.numbers.servers.lock();
        let label = server_label(organisation, server);
        if let Some(known) = all.entry(label.clone()).tools.get(&tool) {
            return known.clone();
        }
        let is_full = all.has_too_many_tools(organisation, self.numbers.tools);
        let entry = all.entry(label);
        if is_full {
            return entry.other_tools();
        }
        let new = Arc::new(ToolMetrics::new(entry.server.clone(), entry.is_other));
        entry.tools.insert(tool, new.clone());
        new
    }

    /// Returns the shared counters of a server's tools beyond the bound.
    pub fn other_tools(&self, organisation: Option<&str>, server: &str) -> Arc<ToolMetrics> {
        self.numbers.servers.lock().entry(server_label(organisation, server)).other_tools()
    }

    /// Returns the counters of a server, creating them if new.
    pub fn server(&self, organisation: Option<&str>, slug: &str) -> Arc<ServerMetrics> {
        self.numbers.servers.lock().entry(server_label(organisation, slug)).server.clone()
    }

    /// Returns the figures of a server, or `None` if it has no separate counters.
    pub fn server_figures(&self, organisation: Option<&str>, slug: &str) -> Option<ServerFigures> {
        Some(self.known(organisation, slug)?.figures())
    }

    /// Returns the recent calls of a server's tools, oldest step first. Empty if the server has no
    /// separate counters.
    pub fn recent_calls(&self, organisation: Option<&str>, slug: &str) -> Vec<RecentCalls> {
        self.known(organisation, slug).map(|server| server.recent_calls()).unwrap_or_default()
    }

    /// Returns the separate counters of a server, if it has any.
    fn known(&self, organisation: Option<&str>, slug: &str) -> Option<Arc<ServerMetrics>> {
        let servers = self.numbers.servers.lock();
        let entry = servers.by_label.get(&server_label(organisation, slug))?;
        if entry.is_other { None } else { Some(Arc::clone(&entry.server)) }
    }

    /// Ends a step of the recent calls of all servers.
    pub fn end_step(&self) {
        let mut servers = Vec::new();
        for entry in self.numbers.servers.lock().by_label.values() {
            servers.push(Arc::clone(&entry.server));
        }
        for server in servers {
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
        let offered: BTreeSet<String> = offered.into_iter().map(label).collect();
        let mut servers = self.numbers.servers.lock();
        if let Some(entry) = servers.by_label.get_mut(&server_label(organisation, server)) {
            entry.tools.retain(|tool, _| offered.contains(tool));
        }
    }

    /// Removes a server that is no longer configured, with its tools. Existing handles remain valid
    /// but are not exported.
    pub fn remove_server(&self, organisation: Option<&str>, slug: &str) {
        self.numbers.servers.lock().by_label.remove(&server_label(organisation, slug));
    }

    /// Returns the numbers that can decrease.
    pub fn gauges(&self) -> &Gauges {
        &self.numbers.gauges
    }

    /// Sets the number of messages refused so far for lack of memory.
    pub fn set_refused_for_memory(&self, count: u64) {
        self.numbers.refused_for_memory.store(count, Relaxed);
    }

    /// Returns the counters of the audit trail.
    pub fn audit(&self) -> &Arc<AuditCounters> {
        &self.numbers.audit
    }

    /// Counts a notification that a call awaits approval.
    pub fn notified(&self, outcome: Notification) {
        self.numbers.notifications[outcome as usize].fetch_add(1, Relaxed);
    }

    /// Counts a request to the server of embeddings, by whether it returned vectors.
    pub fn embedded(&self, is_success: bool) {
        self.numbers.embeddings[usize::from(is_success)].fetch_add(1, Relaxed);
    }

    /// Counts a request rejected before it became a call.
    pub fn rejected(&self, why: Rejection) {
        self.numbers.rejections[why as usize].fetch_add(1, Relaxed);
    }

    /// Counts a request that policy denied, or that a dry-run rule would have denied.
    pub fn denied(&self, rule: &str, why: Denial) {
        if let Some(counts) = self.numbers.denials.read().get(rule) {
            counts[why as usize].fetch_add(1, Relaxed);
            return;
        }
        let mut by_rule = self.numbers.denials.write();
        let is_full = by_rule.len() >= MAX_RULES && !by_rule.contains_key(rule);
        let rule = if is_full { OTHER } else { rule };
        by_rule.entry(rule.into()).or_default()[why as usize].fetch_add(1, Relaxed);
    }

    /// Counts a request with an unknown name.
    pub fn named_unknown(&self, what: Unknown) {
        self.numbers.unknown[what as usize].fetch_add(1, Relaxed);
    }

    /// Counts an HTTP response.
    pub fn responded(&self, status: u16) {
        let place = usize::from(status).wrapping_sub(FIRST_STATUS);
        if let Some(counter) = self.numbers.statuses.0.get(place) {
            counter.fetch_add(1, Relaxed);
        }
    }

    /// Counts a changed configuration, by whether it took effect.
    pub fn reloaded(&self, is_success: bool) {
        let numbers = &self.numbers;
        numbers.reloads[usize::from(is_success)].fetch_add(1, Relaxed);
        numbers.has_failed_reload.store(!is_success, Relaxed);
        if is_success {
            numbers.last_reload.store(now(), Relaxed);
        }
    }

    /// Counts a client's request, under its tool if it exists.
    pub fn served(&self, tool: Option<&ToolMetrics>, labels: OperationLabels, duration: Duration) {
        match tool {
            Some(tool) => tool.served.observe(labels, duration),
            None => self.numbers.served.observe(labels, duration),
        }
    }

    /// Counts an ended client session.
    pub fn session_ended(&self, labels: OperationLabels, duration: Duration) {
        self.numbers.sessions_ended.observe(labels, duration);
    }

    /// Sets the exported key sets.
    pub fn set_key_sets(&self, sets: Vec<KeySet>) {
        *self.numbers.key_sets.lock() = sets;
    }

    /// Sets the exported expiry of certificates, in Unix seconds.
    pub fn set_certificates(&self, expiries: Vec<(&'static str, i64)>) {
        *self.numbers.certificates.lock() = expiries;
    }

    /// Returns the counter of spans that were not exported, for [`crate::Tracer`].
    pub(crate) fn lost_spans(&self) -> Arc<AtomicU64> {
        self.numbers.lost_spans.clone()
    }

    /// Sets the counter of log lines that were not exported.
    pub(crate) fn set_lost_logs(&self, losses: Arc<AtomicU64>) {
        let _ = self.numbers.lost_logs.set(losses);
    }

    /// Renders all metrics in the Prometheus text format (version 0.0.4). Serve them as
    /// `text/plain; version=0.0.4`.
    pub fn render(&self) -> String {
        render(&self.numbers)
    }

    /// Renders the metrics without private labels: counts of a server reveal the activity of
    /// others, its name may be hidden, and rules and issuers are for operators.
    pub fn render_shared(&self) -> String {
        // Quotes within values are escaped, so only a label can match.
        let marks = PRIVATE.map(|label| [label, "=\""].concat());
        let mut shared = String::new();
        for line in self.render().split_inclusive('\n') {
            if !marks.iter().any(|mark| line.contains(mark)) {
                shared.push_str(line);
            }
        }
        shared
    }
}

fn server_label(organisation: Option<&str>, slug: &str) -> ServerLabel {
    ServerLabel { organisation: organisation.map(label), slug: label(slug) }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// Returns a label value of bounded length without control characters. A tool named `other` is
/// renamed to differ from the shared counters.
fn label(name: &str) -> String {
    if name == OTHER {
        return "other_".to_owned();
    }
    let first = name.chars().take(MAX_LABEL);
    first.map(|c| if c.is_control() { '?' } else { c }).collect()
}

#[cfg(test)]
mod tests;
