//! Where counters are found by name, how many there may be, and how they are read. Looking one up
//! locks and is for the time when lists are merged; counting is in the handles and does not.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::audit::AuditCounters;
use crate::config::Config;
use crate::counters::{Gauge, ServerMetrics, ToolMetrics};
use crate::durations::OperationLabels;
use crate::export::Exporter;
use crate::figures::ServerFigures;
use crate::labels::{Denial, Notification, OTHER, Rejection, Unknown};
use crate::numbers::{KeySet, Numbers, ORGANISATION, ServerLabel};
use crate::recent::RecentCalls;

/// Longest label value; names beyond it are cut.
const MAX_LABEL: usize = 128;

/// Labels whose values are for operators alone.
const PRIVATE: [&str; 5] = [ORGANISATION, "server", "tool", "rule", "issuer"];

/// Every number that the gateway exports. Clones share them.
#[derive(Clone)]
pub struct Metrics {
    numbers: Arc<Numbers>,
    exporter: Arc<Exporter>,
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
        let numbers = Arc::new(Numbers::new(config.tools));
        let exporter = Arc::new(Exporter::new(&numbers));
        Self { numbers, exporter }
    }

    /// The counters of a tool, made if they are new. Beyond `Config::tools` distinct ones, further
    /// tools of a server share one. Organisations have as many of their own, and none all of them.
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
        all.tools[usize::from(organisation.is_some())] += 1;
        new
    }

    /// Returns the counters that the tools of a server share which have none of their own.
    pub fn other_tools(&self, organisation: Option<&str>, server: &str) -> Arc<ToolMetrics> {
        self.numbers.servers.lock().entry(server_label(organisation, server)).other_tools()
    }

    /// The counters of a server, made if they are new.
    pub fn server(&self, organisation: Option<&str>, slug: &str) -> Arc<ServerMetrics> {
        self.numbers.servers.lock().entry(server_label(organisation, slug)).server.clone()
    }

    /// What became of the calls of a server's tools; none where it is not counted by itself.
    pub fn server_figures(&self, organisation: Option<&str>, slug: &str) -> Option<ServerFigures> {
        let servers = self.numbers.servers.lock();
        let entry = servers.by_label.get(&server_label(organisation, slug))?;
        let server = Arc::clone(&entry.server);
        let is_alone = !entry.is_other;
        drop(servers);
        if is_alone { Some(server.figures()) } else { None }
    }

    /// What became of the calls of a server's tools of late, from the oldest step to the one that
    /// goes on; none where it is not counted by itself.
    pub fn recent_calls(&self, organisation: Option<&str>, slug: &str) -> Vec<RecentCalls> {
        let servers = self.numbers.servers.lock();
        let found = servers.by_label.get(&server_label(organisation, slug));
        let server = match found {
            Some(entry) if !entry.is_other => Arc::clone(&entry.server),
            _ => return Vec::new(),
        };
        drop(servers);
        server.recent_calls()
    }

    /// Ends a step of what is shown of late, of all servers.
    pub fn end_step(&self) {
        let mut servers = Vec::new();
        for entry in self.numbers.servers.lock().by_label.values() {
            servers.push(Arc::clone(&entry.server));
        }
        for server in servers {
            server.end_step();
        }
    }

    /// Forgets tools that a server no longer offers, which makes room for others. Call it with each
    /// new catalog, so that a server that keeps renaming its tools cannot use up the bound for all.
    pub fn keep_tools<'a>(
        &self,
        organisation: Option<&str>,
        server: &str,
        offered: impl IntoIterator<Item = &'a str>,
    ) {
        let offered: BTreeSet<String> = offered.into_iter().map(label).collect();
        let mut servers = self.numbers.servers.lock();
        let Some(entry) = servers.by_label.get_mut(&server_label(organisation, server)) else {
            return;
        };
        let before = entry.tools.len();
        entry.tools.retain(|tool, _| offered.contains(tool));
        let gone = before - entry.tools.len();
        servers.tools[usize::from(organisation.is_some())] -= gone;
    }

    /// Forgets a server that is no longer configured, with its tools. Handles that are still held
    /// count on unseen.
    pub fn remove_server(&self, organisation: Option<&str>, slug: &str) {
        self.numbers.servers.lock().remove(&server_label(organisation, slug));
    }

    /// Calls that wait for their clients' answers.
    pub fn parked(&self) -> &Gauge {
        &self.numbers.parked
    }

    /// Legacy sessions alive.
    pub fn sessions(&self) -> &Gauge {
        &self.numbers.sessions
    }

    /// Streams open towards clients.
    pub fn streams(&self) -> &Gauge {
        &self.numbers.streams
    }

    /// Calls that wait for a person.
    pub fn approvals(&self) -> &Gauge {
        &self.numbers.approvals
    }

    /// Requests that run now.
    pub fn in_flight(&self) -> &Gauge {
        &self.numbers.in_flight
    }

    /// Requests that wait for a place.
    pub fn queued(&self) -> &Gauge {
        &self.numbers.queued
    }

    /// Bytes of messages that are held now.
    pub fn bytes_in_flight(&self) -> &Gauge {
        &self.numbers.bytes_in_flight
    }

    /// Bytes of messages that may be held.
    pub fn bytes_limit(&self) -> &Gauge {
        &self.numbers.bytes_limit
    }

    /// 1 while the store of shared rates cannot be reached.
    pub fn shared_rates_away(&self) -> &Gauge {
        &self.numbers.shared_rates_away
    }

    /// How many messages were refused so far because there was no memory for them.
    pub fn set_refused_for_memory(&self, count: u64) {
        self.numbers.refused_for_memory.store(count, Relaxed);
    }

    /// How the audit trail does.
    pub fn audit(&self) -> &Arc<AuditCounters> {
        &self.numbers.audit
    }

    /// Counts one message that a call waits for approvers.
    pub fn notified(&self, outcome: Notification) {
        self.numbers.notifications[outcome as usize].fetch_add(1, Relaxed);
    }

    /// Counts one request that was refused before it became a call.
    pub fn rejected(&self, why: Rejection) {
        self.numbers.rejections[why as usize].fetch_add(1, Relaxed);
    }

    /// Counts one request that policy denied, or that a rule on trial would have denied.
    pub fn denied(&self, rule: &str, why: Denial) {
        self.numbers.denials.count(rule, why);
    }

    /// Counts one request for something that nothing has.
    pub fn named_unknown(&self, what: Unknown) {
        self.numbers.denials.count_unknown(what);
    }

    /// Counts one HTTP response.
    pub fn responded(&self, status: u16) {
        self.numbers.statuses.count(status);
    }

    /// Counts one changed configuration, and whether it is in force.
    pub fn reloaded(&self, is_success: bool) {
        self.numbers.reloads.count(is_success);
    }

    /// A client asked something, about this tool if it is one that is there.
    pub fn served(&self, tool: Option<&ToolMetrics>, labels: OperationLabels, duration: Duration) {
        match tool {
            Some(tool) => tool.served.observe(labels, duration),
            None => self.numbers.served.observe(labels, duration),
        }
    }

    /// A client's session is over.
    pub fn session_ended(&self, labels: OperationLabels, duration: Duration) {
        self.numbers.sessions_ended.observe(labels, duration);
    }

    /// Exported as they were last told.
    pub fn set_key_sets(&self, sets: Vec<KeySet>) {
        *self.numbers.key_sets.lock() = sets;
    }

    /// When certificates run out, in Unix seconds; exported as it was last told.
    pub fn set_certificates(&self, expiries: Vec<(&'static str, i64)>) {
        *self.numbers.certificates.lock() = expiries;
    }

    /// Spans that were not exported, for [`crate::Tracer`].
    pub(crate) fn lost_spans(&self) -> Arc<AtomicU64> {
        self.numbers.lost_spans.clone()
    }

    /// Where lines of the log are counted that were not exported.
    pub(crate) fn set_lost_logs(&self, losses: Arc<AtomicU64>) {
        let _ = self.numbers.lost_logs.set(losses);
    }

    /// Everything in the Prometheus text format (version 0.0.4). Serve it as `text/plain;
    /// version=0.0.4`.
    pub fn render(&self) -> String {
        self.exporter.render()
    }

    /// The same without names, for who is none of the operator's: what is counted of a server says
    /// what others do there, and its name may be hidden from them; and without rules and issuers.
    pub fn render_shared(&self) -> String {
        // Quotes within values are escaped, so that nothing but the label looks like this.
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

/// A label value of bounded length without control characters. A tool that is really called `other`
/// gets a name that cannot be taken for the sum.
fn label(name: &str) -> String {
    if name == OTHER {
        return "other_".to_owned();
    }
    let first = name.chars().take(MAX_LABEL);
    first.map(|c| if c.is_control() { '?' } else { c }).collect()
}

#[cfg(test)]
mod tests;
