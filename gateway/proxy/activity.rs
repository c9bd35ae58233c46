//! Events outside of MCP: wake-ups for live views of request activity, added and removed tools, and
//! ended calls. Nearly free without listeners. Slow listeners lose the oldest events and never
//! block.

use std::collections::hash_map::RandomState;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use lockgate_policy::{Annotations, Target, TargetKind};
use lockgate_telemetry::Outcome;
use lockgate_upstream::{ListKind, ServerId};
use parking_lot::Mutex;
use tokio::sync::{broadcast, watch};

use crate::catalog::{Catalog, CatalogEntry};

/// Key of the channel of all organisations.
const EVERYWHERE: &str = "";
/// Time for which reports are counted without a subscriber, after a position was read.
const POSITION_PERIOD: Duration = Duration::from_secs(60);

/// Channels that signal that a request was decided on or has ended, per organisation of the callers
/// or for the whole gateway. They carry no details of the requests, which the audit trail has.
/// Without subscribers a report costs one atomic load.
#[derive(Default)]
pub struct Activity {
    /// By the callers' organisation, or [`EVERYWHERE`].
    channels: Mutex<HashMap<Arc<str>, Channel>>,
    /// Whether there are channels.
    is_heard: AtomicBool,
}

struct Channel {
    /// Counts reports, from a random number.
    sender: watch::Sender<u64>,
    told: Option<Instant>,
    /// Kept until then without a subscriber.
    until: Instant,
}

/// A position in the reports of an organisation, or of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ActivityPosition {
    /// Differs from the count at subscription if there were reports since.
    pub count: u64,
    /// Whether reports were not counted before.
    pub is_new: bool,
    /// The latest report.
    pub told: Option<Instant>,
}

impl Channel {
    fn new(now: Instant) -> Self {
        let start = RandomState::new().build_hasher().finish();
        Self { sender: watch::Sender::new(start), told: None, until: now }
    }

    fn is_unused(&self, now: Instant) -> bool {
        self.sender.receiver_count() == 0 && self.until <= now
    }
}

impl Activity {
    /// Subscribes to one organisation, or to all. Reports made in quick succession are coalesced.
    pub fn listen(&self, organisation: Option<&str>) -> watch::Receiver<u64> {
        self.with_channel(organisation, |channel, _, _| channel.sender.subscribe())
    }

    /// Returns the current position, from which a subscriber can continue for a while.
    pub fn position(&self, organisation: Option<&str>) -> ActivityPosition {
        self.with_channel(organisation, |channel, is_new, now| {
            channel.until = now + POSITION_PERIOD;
            let count = *channel.sender.borrow();
            ActivityPosition { count, is_new, told: channel.told }
        })
    }

    fn with_channel<T>(
        &self,
        organisation: Option<&str>,
        use_channel: impl FnOnce(&mut Channel, bool, Instant) -> T,
    ) -> T {
        let now = Instant::now();
        let key = organisation.unwrap_or(EVERYWHERE);
        let mut channels = self.channels.lock();
        self.is_heard.store(true, Ordering::Relaxed);
        channels.retain(|name, channel| **name == *key || !channel.is_unused(now));
        let is_new = !channels.contains_key(key);
        let channel = channels.entry(key.into()).or_insert_with(|| Channel::new(now));
        use_channel(channel, is_new, now)
    }

    /// Reports a request from a caller in this organisation.
    pub(crate) fn tell(&self, organisation: &str) {
        if !self.is_heard.load(Ordering::Relaxed) {
            return;
        }
        let now = Instant::now();
        let mut channels = self.channels.lock();
        for key in [organisation, EVERYWHERE] {
            let Some(channel) = channels.get_mut(key) else { continue };
            channel.sender.send_modify(|count| *count = count.wrapping_add(1));
            channel.told = Some(now);
            if channel.is_unused(now) {
                channels.remove(key);
            }
        }
        self.is_heard.store(!channels.is_empty(), Ordering::Relaxed);
    }
}

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

/// Channels for added and removed tools, visible to every caller that sees the tool, and for ended
/// calls, visible within the caller's organisation only.
pub struct ToolNews {
    changes: broadcast::Sender<ToolChange>,
    /// Channels by the caller's organisation, for organisations with listeners.
    calls: Mutex<HashMap<Arc<str>, broadcast::Sender<Arc<EndedCall>>>>,
    /// Set if there is, or recently was, a listener for calls.
    is_heard: AtomicBool,
}

impl Default for ToolNews {
    fn default() -> Self {
        Self {
            changes: broadcast::Sender::new(MAX_BACKLOG),
            calls: Mutex::default(),
            is_heard: AtomicBool::new(false),
        }
    }
}

impl ToolNews {
    /// Subscribes to added and removed tools of all organisations; filter with
    /// [`Gateway::sees_tool`](crate::Gateway::sees_tool).
    pub fn changes(&self) -> broadcast::Receiver<ToolChange> {
        self.changes.subscribe()
    }

    /// Subscribes to ended calls of an organisation's members.
    pub fn calls(&self, organisation: &str) -> broadcast::Receiver<Arc<EndedCall>> {
        let mut calls = self.calls.lock();
        calls.retain(|_, channel| channel.receiver_count() > 0);
        self.is_heard.store(true, Ordering::Relaxed);
        let channel = calls.entry(organisation.into());
        channel.or_insert_with(|| broadcast::Sender::new(MAX_BUFFERED_CALLS)).subscribe()
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
