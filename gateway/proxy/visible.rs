//! What one caller may see of the gateway at `/mcp`, for those who show it to people, and whether
//! the caller is still let in. It goes by the same views as lists and calls.

use std::sync::Arc;

use bytes::Bytes;
use lockgate_authn::Principal;
use lockgate_policy::Kind;
use lockgate_protocol::method::Method;
use lockgate_telemetry::{RecentCalls, ServerFigures, ToolMetrics};
use lockgate_upstream::{ListKind, Upstream};
use tokio::sync::{broadcast, watch};

use crate::catalog::{View, organisation_of};
use crate::directory::About;
use crate::gateway::Gateway;
use crate::rights::CallerRights;
use crate::tool_news::{EndedCall, NamedTool, ToolChange};
use crate::transport::Endpoint;

/// A tool that a caller may use.
#[derive(Clone)]
pub struct VisibleTool {
    pub server: Arc<dyn Upstream>,
    /// What it is called by.
    pub exposed: Arc<str>,
    /// Its definition as JSON.
    pub text: Bytes,
    /// Where its calls are counted.
    pub metrics: Option<Arc<ToolMetrics>>,
}

/// A prompt or a resource that a caller may use.
#[derive(Clone)]
pub struct VisibleItem {
    pub server: Arc<dyn Upstream>,
    /// The name, or the URI, that it is asked for by.
    pub exposed: Arc<str>,
    /// Its definition as JSON.
    pub text: Bytes,
}

impl Gateway {
    /// The servers that members of an organisation may have: all that is not hidden by one of the
    /// operator's with the same slug, whatever policy says.
    #[must_use]
    pub fn servers_for(&self, organisation: &str) -> Vec<Arc<dyn Upstream>> {
        let mut servers: Vec<Arc<dyn Upstream>> = Vec::new();
        for server in self.directory.servers_for(organisation) {
            if server.organisation().is_none() || !self.has_shared(server.slug()) {
                servers.push(server);
            }
        }
        servers
    }

    /// What became of the calls of a server's tools; none where they are counted with others.
    #[must_use]
    pub fn figures_of(&self, server: &dyn Upstream) -> Option<ServerFigures> {
        self.metrics.server_figures(organisation_of(server), server.slug())
    }

    /// The same of late, in steps of [`lockgate_telemetry::RECENT_STEP`].
    #[must_use]
    pub fn recent_calls_of(&self, server: &dyn Upstream) -> Vec<RecentCalls> {
        self.metrics.recent_calls(organisation_of(server), server.slug())
    }

    /// Returns how many legacy sessions are open: of an organisation, or of all.
    #[must_use]
    pub fn count_sessions(&self, organisation: Option<&str>) -> usize {
        match organisation {
            None => self.sessions.len(),
            Some(_) => self.sessions.of(organisation).len(),
        }
    }

    /// A step of what is shown of late is over.
    pub fn end_step(&self) {
        self.metrics.end_step();
    }

    /// The servers that a caller may know of.
    #[must_use]
    pub fn visible_servers(&self, caller: &Principal) -> Vec<Arc<dyn Upstream>> {
        let Some(view) = self.view_for(caller) else { return Vec::new() };
        view.servers.values().cloned().collect()
    }

    /// The tools that a caller may use without being asked things, once the servers have settled.
    pub async fn visible_tools(&self, caller: &Principal) -> Vec<VisibleTool> {
        self.settle_for(caller).await;
        let Some(view) = self.view_for(caller) else { return Vec::new() };
        let mut tools = Vec::new();
        for entry in view.entries(ListKind::Tools, None) {
            tools.push(VisibleTool {
                server: Arc::clone(&entry.server),
                exposed: Arc::clone(view.shown(entry)),
                text: entry.item.text.clone(),
                metrics: entry.metrics.clone(),
            });
        }
        tools
    }

    /// Returns the server of what a request names (a tool, a prompt or a resource), and that
    /// server's own name for it, where the caller may know of it.
    #[must_use]
    pub fn find_target(
        &self,
        caller: &Principal,
        method: Method,
        target: &str,
    ) -> Option<(Arc<dyn Upstream>, Arc<str>)> {
        let view = self.view_for(caller)?;
        let entry = match method {
            Method::ToolsCall => &view.tool(target)?.entry,
            Method::PromptsGet => &view.prompt(target)?.entry,
            Method::ResourcesRead => {
                let found = view.resource(target, Kind::Resource)?;
                return Some((found.server, found.own.into()));
            }
            _ => return None,
        };
        Some((Arc::clone(&entry.server), Arc::clone(&entry.item.key)))
    }

    /// Tools that come and go, of all organisations, from now on: see [`Self::sees_tool`].
    #[must_use]
    pub fn tool_changes(&self) -> broadcast::Receiver<ToolChange> {
        self.directory.tools.changes()
    }

    /// Calls of tools by members of an organisation as they end, from now on.
    #[must_use]
    pub fn ended_calls(&self, organisation: &str) -> broadcast::Receiver<Arc<EndedCall>> {
        self.directory.tools.calls(organisation)
    }

    /// That requests of members of an organisation, or of everybody, are decided on or end, from
    /// now on.
    #[must_use]
    pub fn activity(&self, organisation: Option<&str>) -> watch::Receiver<()> {
        self.activity.listen(organisation)
    }

    /// Whether a caller sees a tool, or would if it were there.
    #[must_use]
    pub fn sees_tool(&self, caller: &Principal, tool: &NamedTool) -> bool {
        if let Some(organisation) = &tool.server.organisation
            && (**organisation != *caller.organisation() || self.has_shared(&tool.server.slug))
        {
            return false;
        }
        let snapshot = self.snapshot();
        let rights = CallerRights::new(&snapshot.policy, caller.clone(), &Endpoint::All);
        let subject = rights.subject();
        let target = tool.target();
        let question = rights.question(&subject, &target);
        snapshot.policy.verdict(&rights.class, &question).is_visible()
    }

    /// The prompts or resources that a caller may use without being asked things, once the servers
    /// have settled.
    pub async fn visible_items(&self, caller: &Principal, kind: ListKind) -> Vec<VisibleItem> {
        self.settle_for(caller).await;
        let Some(view) = self.view_for(caller) else { return Vec::new() };
        let mut items = Vec::new();
        for entry in view.entries(kind, None) {
            items.push(VisibleItem {
                server: Arc::clone(&entry.server),
                exposed: Arc::clone(view.shown(entry)),
                text: entry.item.text.clone(),
            });
        }
        items
    }

    async fn settle_for(&self, caller: &Principal) {
        let deadline = self.snapshot().config.limits.discovery_deadline;
        let about = About::all(&Endpoint::All);
        self.directory.settle(caller.organisation(), about, deadline).await;
    }

    /// Whether a caller who was let in before would be let in now.
    #[must_use]
    pub fn is_current(&self, caller: &Principal) -> bool {
        self.snapshot().authenticator.current(caller).is_some()
    }

    /// What a caller who was let in before has by now, if it would be let in.
    #[must_use]
    pub fn current_caller(&self, caller: &Principal) -> Option<Principal> {
        self.snapshot().authenticator.current(caller)
    }

    /// Ready when the gateway is going away.
    pub async fn stopping(&self) {
        self.stopping.cancelled().await;
    }

    fn view_for(&self, caller: &Principal) -> Option<Arc<View>> {
        let snapshot = self.snapshot();
        let endpoint = Endpoint::All;
        let rights = CallerRights::new(&snapshot.policy, caller.clone(), &endpoint);
        self.directory.view(&endpoint, &snapshot, &rights)
    }
}
