//! A caller's view of the gateway at `/mcp`, for user interfaces, and whether the caller is still
//! authorized. Uses the same views as lists and calls.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use lockgate_authn::Principal;
use lockgate_policy::TargetKind;
use lockgate_protocol::method::Method;
use lockgate_telemetry::{RECENT_STEP, RecentCalls, ServerFigures, ToolMetrics};
use lockgate_upstream::{ListKind, Upstream};

use crate::activity::NamedTool;
use crate::catalog::merge::{is_free, names_of};
use crate::catalog::{Audience, View, index, organisation_of};
use crate::config::{ItemMistake, Items};
use crate::directory::About;
use crate::gateway::Gateway;
use crate::transport::Endpoint;

/// Steps of recent calls that decide whether calls fail: those of 5 minutes, and the current step.
const CALL_STEPS: usize = 11;
/// Minimum of calls within these steps.
const MIN_CALLS: u64 = 5;

/// A tool, prompt or resource that a caller may use.
#[derive(Clone)]
pub struct VisibleItem {
    pub server: Arc<dyn Upstream>,
    /// The exposed name or URI.
    pub exposed: Arc<str>,
    /// The server's own name or URI.
    pub own: Arc<str>,
    /// The definition as JSON.
    pub text: Bytes,
    /// The call metrics of a tool.
    pub metrics: Option<Arc<ToolMetrics>>,
}

/// Calls of a server of which at least half fail.
#[derive(Clone, Copy, Debug)]
pub struct FailingCalls {
    pub failed: u64,
    pub calls: u64,
    /// When they began to fail, to half a minute.
    pub since: SystemTime,
}

/// Returns how many steps ago calls began to fail: in the oldest of the last [`CALL_STEPS`] with at
/// least half of its calls failed, or earlier if all steps between failed too.
fn find_first_failing(steps: &[RecentCalls]) -> u32 {
    let mut first = 0;
    for (ago, step) in steps.iter().rev().enumerate() {
        let is_failing = step.failed * 2 >= step.calls;
        if is_failing && step.calls > 0 {
            first = ago;
        }
        if !is_failing && ago >= CALL_STEPS {
            break;
        }
    }
    u32::try_from(first).unwrap_or(0)
}

/// Returns the start of the step in which calls began to fail.
fn find_start(steps: &[RecentCalls]) -> SystemTime {
    let first = find_first_failing(steps);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    // Rounded, so that the time does not change from one response to the next.
    let step = RECENT_STEP.as_secs();
    let start = Duration::from_secs(now.as_secs() / step * step);
    SystemTime::UNIX_EPOCH + start.saturating_sub(RECENT_STEP * first)
}

impl Gateway {
    /// Returns the servers available to members of an organisation: all except those shadowed by an
    /// operator's server of the same slug. Policy is not applied.
    pub fn servers_for(&self, organisation: &str) -> Vec<Arc<dyn Upstream>> {
        self.directory
            .servers_for(organisation)
            .into_iter()
            .filter(|server| server.organisation().is_none() || !self.has_shared(server.slug()))
            .collect()
    }

    /// Returns the call figures of a server, `None` if its calls are counted with those of others.
    pub fn figures_of(&self, server: &dyn Upstream) -> Option<ServerFigures> {
        let counted = self.metrics.find_server(organisation_of(server), server.slug())?;
        Some(counted.figures())
    }

    /// Returns the recent call counts, in steps of [`lockgate_telemetry::RECENT_STEP`].
    pub fn recent_calls_of(&self, server: &dyn Upstream) -> Vec<RecentCalls> {
        let counted = self.metrics.find_server(organisation_of(server), server.slug());
        counted.map(|counted| counted.recent_calls()).unwrap_or_default()
    }

    /// Returns the calls of the last 5 minutes, if there were at least 5 and at least half of them
    /// failed.
    pub fn failing_calls_of(&self, server: &dyn Upstream) -> Option<FailingCalls> {
        let steps = self.recent_calls_of(server);
        let mut failed = 0;
        let mut calls = 0;
        for step in steps.iter().rev().take(CALL_STEPS) {
            calls += step.calls;
            failed += step.failed;
        }
        let is_failing = calls >= MIN_CALLS && failed * 2 >= calls;
        is_failing.then(|| FailingCalls { failed, calls, since: find_start(&steps) })
    }

    /// Returns the number of legacy sessions of an organisation, or of all.
    pub fn count_sessions(&self, organisation: Option<&str>) -> usize {
        self.session_edge().map_or(0, |edge| edge.count(organisation))
    }

    /// Returns the servers visible to a caller.
    pub fn visible_servers(&self, caller: &Principal) -> Vec<Arc<dyn Upstream>> {
        let Some(view) = self.view_for(caller) else { return Vec::new() };
        view.servers.values().cloned().collect()
    }

    /// Checks the items of an agent: a new name must not be that of another item, or of a group,
    /// that the caller sees. Names of others are checked when a view is built.
    ///
    /// # Errors
    /// The first mistake.
    pub async fn check_items(&self, caller: &Principal, items: &Items) -> Result<(), ItemMistake> {
        items.check_agent().map_err(|mut mistakes| mistakes.swap_remove(0))?;
        self.settle_everything_for(caller).await;
        let Some(view) = self.view_for(caller) else { return Ok(()) };
        for kind in [ListKind::Tools, ListKind::Prompts] {
            let entries = view.items[index(kind)].iter();
            let mut names = names_of(entries.map(|entry| &**entry), self.snapshot().naming);
            let known: HashSet<String> = names.values().cloned().collect();
            if kind == ListKind::Tools
                && let Some(groups) = &view.groups
            {
                for name in groups.names() {
                    is_free(&mut names, name, name);
                }
            }
            for (key, name) in &items.rename {
                if known.contains(key) && !is_free(&mut names, name, key) {
                    return Err(ItemMistake {
                        member: "rename",
                        key: Some(key.clone()),
                        what: format!("`{name}` is the name of another item"),
                        fix: "choose another name",
                    });
                }
            }
        }
        Ok(())
    }

    /// Returns the server of a tool, prompt or resource and the server's own name for that item, if
    /// visible to the caller.
    pub fn find_target(
        &self,
        caller: &Principal,
        method: Method,
        target: &str,
    ) -> Option<(Arc<dyn Upstream>, Arc<str>)> {
        let view = self.view_for(caller)?;
        if method == Method::ResourcesRead {
            let found = view.resource(target, TargetKind::Resource)?;
            return Some((found.server, found.own.into()));
        }
        let entry = &view.named(method, target)?.entry;
        Some((Arc::clone(&entry.server), Arc::clone(&entry.item.key)))
    }

    /// Returns whether a caller sees a tool, or would see the tool if it existed.
    pub fn sees_tool(&self, caller: &Principal, tool: &NamedTool) -> bool {
        if let Some(organisation) = &tool.server.organisation
            && (**organisation != *caller.organisation() || self.has_shared(&tool.server.slug))
        {
            return false;
        }
        let snapshot = self.snapshot();
        let rights = snapshot.rights_of(caller.clone(), &Endpoint::All);
        rights.judge(&snapshot.policy, &tool.target()).is_visible()
    }

    /// Returns the items of a list that a caller may use without interaction, after waiting for the
    /// servers' lists.
    pub async fn visible_items(&self, caller: &Principal, kind: ListKind) -> Vec<VisibleItem> {
        self.settle_everything_for(caller).await;
        let Some(view) = self.view_for(caller) else { return Vec::new() };
        let mut items = Vec::new();
        for entry in view.entries(kind, Audience::Everybody) {
            items.push(VisibleItem {
                server: Arc::clone(&entry.server),
                exposed: Arc::clone(view.shown(entry)),
                own: Arc::clone(&entry.item.key),
                text: entry.item.text.clone(),
                metrics: entry.metrics.clone(),
            });
        }
        items
    }

    async fn settle_everything_for(&self, caller: &Principal) {
        let deadline = self.snapshot().config.limits.discovery_deadline;
        self.settle_for(caller, || About::all(&Endpoint::All), deadline).await;
    }

    /// Returns whether an authenticated caller would still be authenticated now.
    pub fn is_current(&self, caller: &Principal) -> bool {
        self.snapshot().authenticator.current(caller).is_some()
    }

    fn view_for(&self, caller: &Principal) -> Option<Arc<View>> {
        let snapshot = self.snapshot();
        self.view(&[], &snapshot, &snapshot.rights_of(caller.clone(), &Endpoint::All))
    }
}

#[cfg(test)]
mod tests;
