//! Servers of an agent: those of its organisation and of the operator that the caller sees, whether
//! they are assigned, and the tools that are switched off for the agent.

use std::collections::{BTreeMap, HashMap};

use lockgate_registry::{
    AgentServer as Stored, AgentServerChange, Assignment, Integration as StoredIntegration,
    MAX_PAGE, Page as Found,
};
use lockgate_upstream::{ListKind, Upstream};

use super::agents::Agent;
use super::figures::may_see_figures;
use super::integrations::{Integration, States};
use super::operation::*;
use super::servers::{unknown_server, visible_servers};
use crate::fault::Fault;

types! {
/// A server of an agent.
output pub(crate) struct AgentServer {
    /// The namespace of its tools.
    pub(crate) server: String,
    /// The display name.
    pub(crate) name: String,
    /// Absent for servers of the configuration.
    pub(crate) integration_id: Option<String>,
    /// Whether the agent's endpoint offers it.
    pub(crate) assigned: bool,
    /// As for servers.
    pub(crate) state: &'static str,
    pub(crate) fault: Option<Fault>,
    /// The server's own names of the tools that the agent can neither list nor call.
    pub(crate) hidden_tools: Vec<String>,
    /// The tools that the caller may use. Only in the response for a single server.
    pub(crate) tools: Option<Vec<AgentTool>>,
    /// Set if this was a dry run.
    pub(crate) dry_run: bool,
}

/// A tool of a server of an agent.
output pub(crate) struct AgentTool {
    /// The server's own name.
    pub(crate) name: String,
    /// Whether the agent may list and call it.
    pub(crate) enabled: bool,
}

/// A change of a server of an agent; omitted members are unchanged.
input pub(crate) struct AgentServerPatch {
    /// Whether the agent's endpoint offers the server.
    pub(crate) assigned: Option<bool>,
    /// Tools to switch on (`true`) or off (`false`), by the server's own names.
    #[serde(default)]
    pub(crate) tools: BTreeMap<String, bool>,
}
}

/// The servers that can be assigned to an agent.
struct Candidates {
    /// The servers that the caller sees, by slug.
    servers: HashMap<String, Arc<dyn Upstream>>,
    /// Ids and names of integrations, by slug.
    integrations: HashMap<String, (String, String)>,
}

impl Candidates {
    fn of(state: &ApiState, caller: &Caller, agent: &str) -> Result<Self, Problem> {
        let registry = state.registry()?;
        let actor = make_actor(caller);
        let mut known = registry.list_assigned(&actor, agent)?;
        known.extend(registry.list_available(&actor, agent)?);
        let known = known.into_iter().map(|one| (one.slug, (one.id, one.name)));
        let mut integrations: HashMap<_, _> = known.collect();
        let mut servers = HashMap::new();
        for server in visible_servers(state, caller) {
            if server.organisation().is_none() {
                integrations.remove(server.slug());
            }
            servers.insert(server.slug().to_owned(), server);
        }
        for server in state.gateway.directory.servers_of(Some(caller.organisation())) {
            if integrations.contains_key(server.slug()) {
                servers.entry(server.slug().to_owned()).or_insert(server);
            }
        }
        Ok(Self { servers, integrations })
    }

    /// Returns the key of a server in the registry; `None` for a server that the caller cannot see.
    fn find_key<'a>(&'a self, slug: &'a str) -> Option<&'a str> {
        match self.integrations.get(slug) {
            Some((id, _)) => Some(id),
            None => self.servers.get(slug).map(|_| slug),
        }
    }

    fn describe(
        &self,
        state: &ApiState,
        caller: &Caller,
        slug: &str,
        stored: Option<Stored>,
    ) -> AgentServer {
        let server = self.servers.get(slug);
        let fault = server.and_then(|server| {
            let sees_figures = may_see_figures(caller, &**server);
            Fault::find(&state.gateway, &**server, caller.role == Role::Operator, sees_figures)
        });
        let label = server.map_or("disabled", |server| server.status().state.as_str());
        let integration = self.integrations.get(slug);
        let stored = stored.map(|stored| (stored.is_assigned, stored.hidden_tools));
        let (assigned, hidden_tools) = stored.unwrap_or_default();
        AgentServer {
            server: slug.to_owned(),
            name: integration.map_or(slug, |(_, name)| name).to_owned(),
            integration_id: integration.map(|(id, _)| id.clone()),
            assigned,
            state: label,
            fault,
            hidden_tools,
            tools: None,
            dry_run: false,
        }
    }
}

impl AgentServer {
    /// Adds the tools that the caller may use.
    async fn with_tools(mut self, state: &ApiState, caller: &Caller) -> Self {
        let tools = list_tools(state, caller, &self.server).await.into_iter().map(|name| {
            let enabled = !self.hidden_tools.iter().any(|hidden| *hidden == *name);
            AgentTool { name: name.to_string(), enabled }
        });
        self.tools = Some(tools.collect());
        self
    }
}

/// Returns the own names of the tools of a server that the caller may use.
async fn list_tools(state: &ApiState, caller: &Caller, slug: &str) -> Vec<Arc<str>> {
    let mut tools = state.gateway.visible_items(&caller.principal, ListKind::Tools).await;
    tools.retain(|tool| tool.server.slug() == slug);
    tools.into_iter().map(|tool| tool.own).collect()
}

/// Returns the stored servers of an agent by their keys.
fn list_stored(
    state: &ApiState,
    caller: &Caller,
    id: &str,
) -> Result<HashMap<String, Stored>, Problem> {
    let stored = state.registry()?.list_agent_servers(&make_actor(caller), id)?;
    Ok(stored.into_iter().map(|server| (server.server.clone(), server)).collect())
}

pub(crate) async fn list_agent_servers(
    By { state, caller, .. }: By<User>,
    Path(id): Path<String>,
) -> Result<Json<Page<AgentServer>>, Problem> {
    let candidates = Candidates::of(&state, &caller, &id)?;
    let mut stored = list_stored(&state, &caller, &id)?;
    let mut slugs: Vec<&String> = candidates.servers.keys().collect();
    slugs.extend(candidates.integrations.keys());
    slugs.sort();
    slugs.dedup();
    let items = slugs.into_iter().map(|slug| {
        let own = candidates.find_key(slug).and_then(|key| stored.remove(key));
        candidates.describe(&state, &caller, slug, own)
    });
    let items: Vec<_> = items.collect();
    Ok(Json(Page { total: items.len(), items, next_cursor: None }))
}

pub(crate) async fn show_agent_server(
    By { state, caller, .. }: By<User>,
    Path((id, slug)): Path<(String, String)>,
) -> Result<Json<AgentServer>, Problem> {
    let candidates = Candidates::of(&state, &caller, &id)?;
    let key = candidates.find_key(&slug).ok_or_else(unknown_server)?;
    let stored = list_stored(&state, &caller, &id)?.remove(key);
    let server = candidates.describe(&state, &caller, &slug, stored);
    Ok(Json(server.with_tools(&state, &caller).await))
}

pub(crate) async fn change_agent_server(
    by: By<User>,
    Path((id, slug)): Path<(String, String)>,
    Body(patch): Body<AgentServerPatch>,
) -> Result<Json<AgentServer>, Problem> {
    let change = by.change()?;
    let Change { state, caller, .. } = &change;
    let candidates = Candidates::of(state, caller, &id)?;
    let key = candidates.find_key(&slug).ok_or_else(unknown_server)?.to_owned();
    if patch.tools.values().any(|is_on| !is_on) {
        let known = list_tools(state, caller, &slug).await;
        for (tool, is_on) in &patch.tools {
            if !is_on && !known.iter().any(|known| **known == **tool) {
                let detail = "there is no such tool; the tools of the agent's server show all";
                return Err(Problem::not_found("TOOL_NOT_FOUND", detail));
            }
        }
    }
    let wanted = AgentServerChange { is_assigned: patch.assigned, tools: patch.tools };
    let changed = change
        .make("change server of agent", apply!(change_agent_server(&id, &key, wanted)))
        .await?;
    let dry_run = changed.is_dry_run;
    let server = candidates.describe(state, caller, &slug, changed.after);
    Ok(Json(AgentServer { dry_run, ..server.with_tools(state, caller).await }))
}

// Integrations of agents: assigned from the agent's organisation by callers that may change the
// agent.

/// Default items per page: most agents have fewer.
const DEFAULT_PAGE: usize = MAX_PAGE;

types! {
filter pub(crate) struct AssignedQuery {
    /// Part of the name or the slug, case-insensitive.
    search: Option<String> max 256,
}

/// An agent, with the integration that was assigned or unassigned.
output pub(crate) struct AgentIntegration {
    #[serde(flatten)]
    agent: Agent,
    agent_id: String,
    integration: Integration,
    /// Set if this was a dry run.
    dry_run: bool,
}
}

impl Paged<AssignedQuery> {
    /// Returns a page of the integrations that match the search, in their order.
    fn cut(
        &self,
        By { state, caller, .. }: &By<User>,
        mut found: Vec<StoredIntegration>,
    ) -> Result<Json<Page<Integration>>, Problem> {
        let part = self.part.read()?;
        if let Some(search) = self.filter.search.as_deref().map(str::to_lowercase) {
            found.retain(|one| {
                one.name.to_lowercase().contains(&search) || one.slug.contains(&search)
            });
        }
        let total = found.len();
        let items = found.into_iter().skip(part.offset).take(part.limit.unwrap_or(DEFAULT_PAGE));
        let states = States::of(state, caller.organisation());
        let page = Found { items: items.collect(), total };
        Ok(Json(part.make_page(page, |stored| Integration::new(&states, stored, caller.role))))
    }
}

/// Returns the response with an assignment that was made, or that a dry run would make or remove.
fn answer(
    change: &Change,
    assignment: Assignment,
    dry_run: bool,
) -> Result<AgentIntegration, Problem> {
    let Assignment { agent: agent_id, integration } = assignment;
    let state = &change.state;
    let actor = make_actor(&change.caller);
    let agent = Agent::new(state.registry()?.agent(&actor, &agent_id)?, &change.caller);
    let states = States::of(state, &integration.organisation);
    let integration = Integration::new(&states, integration, change.caller.role);
    Ok(AgentIntegration { agent, agent_id, integration, dry_run })
}

pub(crate) async fn list_assigned(
    by: By<User>,
    Path(id): Path<String>,
    Query(query): Query<Paged<AssignedQuery>>,
) -> Result<Json<Page<Integration>>, Problem> {
    query.cut(&by, by.state.registry()?.list_assigned(&make_actor(&by.caller), &id)?)
}

pub(crate) async fn list_available(
    by: By<User>,
    Path(id): Path<String>,
    Query(query): Query<Paged<AssignedQuery>>,
) -> Result<Json<Page<Integration>>, Problem> {
    query.cut(&by, by.state.registry()?.list_available(&make_actor(&by.caller), &id)?)
}

pub(crate) async fn assign_integration(
    by: By<User>,
    Path((id, integration)): Path<(String, String)>,
) -> Result<Json<AgentIntegration>, Problem> {
    let change = by.change()?;
    let changed = change.make("assign mcp-integration", apply!(assign(&id, &integration))).await?;
    let assignment = changed.after.ok_or_else(broken)?;
    Ok(Json(answer(&change, assignment, changed.is_dry_run)?))
}

pub(crate) async fn unassign_integration(
    by: By<User>,
    Path((id, integration)): Path<(String, String)>,
) -> Result<Deletion<AgentIntegration>, Problem> {
    let change = by.change()?;
    let changed =
        change.make("unassign mcp-integration", apply!(unassign(&id, &integration))).await?;
    let assignment = changed.before.filter(|_| changed.is_dry_run);
    Ok(Deletion(assignment.map(|found| answer(&change, found, true)).transpose()?))
}
