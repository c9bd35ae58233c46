//! Everything that is counted, in one place: the handles add to it, the exporter reads it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use parking_lot::Mutex;

use crate::audit::AuditCounters;
use crate::counters::{Gauge, Notification, Rejection, ServerMetrics, ToolMetrics};

/// The tool name that stands for all tools beyond the bound.
pub(crate) const OTHER: &str = "other";

/// What is counted, as the exporter reads it.
#[derive(Default)]
pub(crate) struct Numbers {
    pub(crate) servers: Mutex<Servers>,
    pub(crate) sessions: Gauge,
    pub(crate) streams: Gauge,
    pub(crate) parked: Gauge,
    pub(crate) approvals: Gauge,
    pub(crate) notifications: [AtomicU64; Notification::ALL.len()],
    pub(crate) in_flight: Gauge,
    pub(crate) queued: Gauge,
    pub(crate) bytes_in_flight: Gauge,
    pub(crate) bytes_limit: Gauge,
    pub(crate) refused_for_memory: Arc<AtomicU64>,
    pub(crate) rejections: [AtomicU64; Rejection::ALL.len()],
    pub(crate) lost_spans: Arc<AtomicU64>,
    pub(crate) audit: Arc<AuditCounters>,
    /// Bound on `Servers::tools`.
    pub(crate) tools: usize,
}

#[derive(Default)]
pub(crate) struct Servers {
    pub(crate) by_slug: BTreeMap<String, Entry>,
    /// Sum over all servers of tools counted one by one.
    pub(crate) tools: usize,
}

pub(crate) struct Entry {
    pub(crate) server: Arc<ServerMetrics>,
    pub(crate) tools: BTreeMap<String, Arc<ToolMetrics>>,
    pub(crate) other: Option<Arc<ToolMetrics>>,
}

impl Default for Entry {
    fn default() -> Self {
        Self { server: Arc::new(ServerMetrics::new()), tools: BTreeMap::new(), other: None }
    }
}

impl Servers {
    pub(crate) fn each_server(&self, mut see: impl FnMut(&str, &ServerMetrics)) {
        self.by_slug.iter().for_each(|(slug, entry)| see(slug, &entry.server));
    }

    pub(crate) fn each_tool(&self, mut see: impl FnMut(&str, &str, &ToolMetrics)) {
        for (slug, entry) in &self.by_slug {
            entry.tools.iter().for_each(|(tool, metrics)| see(slug, tool, metrics));
            if let Some(other) = &entry.other {
                see(slug, OTHER, other);
            }
        }
    }
}
