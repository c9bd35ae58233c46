//! Tool events outside of MCP: added and removed tools, visible to every caller that sees the tool,
//! and ended calls, visible within the caller's organisation only. Nearly free without listeners.
//! Slow listeners lose the oldest events and never block.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lockgate_policy::{Annotations, Target, TargetKind};
use lockgate_telemetry::Outcome;
use lockgate_upstream::{ListKind, ServerId};
use parking_lot::Mutex;
use tokio::sync::broadcast;

use crate::catalog::{Catalog, CatalogEntry};

/// Tool changes buffered for a slow listener.
const MAX_BACKLOG: usize = 4096;
/// Ended calls of an organisation buffered for a slow listener.
const MAX_BUFFERED_CALLS: usize = 256;

/// A tool with the attributes that policy evaluates.
#[derive(Clone, Debug)]
pub struct NamedTool {
    pub server: ServerId,
    /// The namespaced name, as at `/mcp`.
    pub exposed: Arc<str>,
    own: Arc<str>,
    category: Option<Arc<str>>,
    annotations: Annotations,
}

impl NamedTool {
    fn of(entry: &CatalogEntry) -> Self {
        let target = entry.target(TargetKind::Tool);
        Self {
            server: ServerId::of(&*entry.server),
            exposed: Arc::clone(&entry.exposed),
            own: Arc::clone(&entry.item.key),
            category: target.category.map(Arc::from),
            annotations: target.annotations,
        }
    }

    pub(crate) fn target(&self) -> Target<'_> {
        Target {
            kind: TargetKind::Tool,
            server: &self.server.slug,
            organisation: self.server.organisation.as_deref(),
            exposed: &self.exposed,
            own: &self.own,
            category: self.category.as_deref(),
            annotations: self.annotations,
        }
    }
}

/// A tool that was added or removed.
#[derive(Clone, Debug)]
pub struct ToolChange {
    pub tool: NamedTool,
    /// Set if the tool was added.
    pub is_registered: bool,
}

/// An ended call of a tool.
#[derive(Clone, Debug)]
pub struct EndedCall {
    /// [`lockgate_authn::Principal::key`] of the caller.
    pub caller: u64,
    pub issuer: Arc<str>,
    pub subject: Arc<str>,
    pub server: Arc<str>,
    /// The namespaced name, as at `/mcp`.
    pub tool: Arc<str>,
    pub outcome: Outcome,
    pub duration: Duration,
}

pub(crate) struct ToolNews {
    changes: broadcast::Sender<ToolChange>,
    /// Channels by the caller's organisation, for organisations with listeners.
    calls: Mutex<HashMap<Arc<str>, broadcast::Sender<Arc<EndedCall>>>>,
    /// Set if there is, or recently was, a listener for calls.
    is_heard: AtomicBool,
}

impl Default for ToolNews {
    fn default() -> Self {
        Self {
            changes: broadcast::channel(MAX_BACKLOG).0,
            calls: Mutex::default(),
            is_heard: AtomicBool::new(false),
        }
    }
}

impl ToolNews {
    pub(crate) fn changes(&self) -> broadcast::Receiver<ToolChange> {
        self.changes.subscribe()
    }

    pub(crate) fn calls(&self, organisation: &str) -> broadcast::Receiver<Arc<EndedCall>> {
        let mut calls = self.calls.lock();
        calls.retain(|_, channel| channel.receiver_count() > 0);
        self.is_heard.store(true, Ordering::Relaxed);
        match calls.get(organisation) {
            Some(known) => known.subscribe(),
            None => {
                let (sender, receiver) = broadcast::channel(MAX_BUFFERED_CALLS);
                calls.insert(organisation.into(), sender);
                receiver
            }
        }
    }

    /// Publishes a call of this organisation, if there are listeners.
    pub(crate) fn tell_call(&self, organisation: &str, call: impl FnOnce() -> Option<EndedCall>) {
        if !self.is_heard.load(Ordering::Relaxed) {
            return;
        }
        let mut calls = self.calls.lock();
        let Some(channel) = calls.get(organisation) else { return };
        if channel.receiver_count() == 0 {
            calls.remove(organisation);
            self.is_heard.store(!calls.is_empty(), Ordering::Relaxed);
            return;
        }
        if let Some(call) = call() {
            let _ = channel.send(Arc::new(call));
        }
    }

    /// Publishes the tools that are in only one of two catalogs.
    pub(crate) fn tell_changes(&self, before: &Catalog, after: Option<&Catalog>) {
        if self.changes.receiver_count() == 0 {
            return;
        }
        let old = before.items(ListKind::Tools);
        let new = after.map_or(&[][..], |after| after.items(ListKind::Tools));
        for (of, others, is_registered) in [(old, new, false), (new, old, true)] {
            let names: HashSet<_> = others.iter().map(|entry| name(entry)).collect();
            for entry in of {
                if !names.contains(&name(entry)) {
                    let tool = NamedTool::of(entry);
                    let _ = self.changes.send(ToolChange { tool, is_registered });
                }
            }
        }
    }
}

fn name(entry: &CatalogEntry) -> (&str, &str) {
    (&entry.slug, &entry.exposed)
}

#[cfg(test)]
mod tests;
