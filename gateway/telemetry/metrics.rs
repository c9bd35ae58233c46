//! Where counters are found by name, how many there may be, and how they are read. Looking one up
//! locks and is for the time when lists are merged; counting is in the handles and does not.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::audit::AuditCounters;
use crate::config::Config;
use crate::counters::{Gauge, Notification, Rejection, ServerMetrics, ToolMetrics};
use crate::export::Exporter;
use crate::numbers::{Numbers, OTHER};

/// Longest label value; names beyond it are cut.
const MAX_LABEL: usize = 128;

/// Every number that the gateway exports. Clones share them.
#[derive(Clone)]
pub struct Metrics {
    numbers: Arc<Numbers>,
    exporter: Arc<Exporter>,
}

impl std::fmt::Debug for Metrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Metrics")
            .field("servers", &self.numbers.servers.lock().by_slug.len())
            .finish_non_exhaustive()
    }
}

impl Metrics {
    pub fn new(config: &Config) -> Self {
        let numbers = Arc::new(Numbers { tools: config.tools, ..Numbers::default() });
        let exporter = Arc::new(Exporter::new(&numbers));
        Self { numbers, exporter }
    }

    /// The counters of a tool, made if they are new. Beyond `Config::tools` distinct ones, further
    /// tools of a server share one.
    pub fn tool(&self, server: &str, tool: &str) -> Arc<ToolMetrics> {
        let tool = label(tool);
        let mut servers = self.numbers.servers.lock();
        let full = servers.tools >= self.numbers.tools;
        let entry = servers.by_slug.entry(label(server)).or_default();
        if let Some(known) = entry.tools.get(&tool) {
            return known.clone();
        }
        if full {
            return entry
                .other
                .get_or_insert_with(|| Arc::new(ToolMetrics::new(entry.server.clone())))
                .clone();
        }
        let new = Arc::new(ToolMetrics::new(entry.server.clone()));
        entry.tools.insert(tool, new.clone());
        servers.tools += 1;
        new
    }

    /// The counters of a server, made if they are new.
    pub fn server(&self, slug: &str) -> Arc<ServerMetrics> {
        self.numbers.servers.lock().by_slug.entry(label(slug)).or_default().server.clone()
    }

    /// Forgets tools that a server no longer offers, which makes room for others. Call it with each
    /// new catalog, so that a server that keeps renaming its tools cannot use up the bound for all.
    pub fn keep_tools<'a>(&self, server: &str, offered: impl IntoIterator<Item = &'a str>) {
        let offered: BTreeSet<String> = offered.into_iter().map(label).collect();
        let mut servers = self.numbers.servers.lock();
        let Some(entry) = servers.by_slug.get_mut(&label(server)) else {
            return;
        };
        let before = entry.tools.len();
        entry.tools.retain(|tool, _| offered.contains(tool));
        let gone = before - entry.tools.len();
        servers.tools -= gone;
    }

    /// Forgets a server that is no longer configured, with its tools. Handles that are still held
    /// count on unseen.
    pub fn remove_server(&self, slug: &str) {
        let mut servers = self.numbers.servers.lock();
        if let Some(entry) = servers.by_slug.remove(&label(slug)) {
            servers.tools -= entry.tools.len();
        }
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

    /// Spans that were not exported, for [`crate::Tracer`].
    pub(crate) fn lost_spans(&self) -> Arc<AtomicU64> {
        self.numbers.lost_spans.clone()
    }

    /// Everything in the Prometheus text format (version 0.0.4). Serve it as `text/plain;
    /// version=0.0.4`.
    pub fn render(&self) -> String {
        self.exporter.render()
    }
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
