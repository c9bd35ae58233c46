//! Servers of an agent: those of its organisation and of the operator that the caller sees, whether
//! they are assigned, and the tools that are switched off for the agent.

use std::collections::{BTreeMap, HashMap};

use lockgate_registry::{
    AgentServer as Stored, AgentServerChange, Assignment, Integration as StoredIntegration,
};
use lockgate_upstream::{ListKind, Upstream};

use super::agents::Agent;
use super::figures::may_see_figures;
use super::integrations::{Integration, States, matches_search, place};
use super::operation::*;
use super::page::{ListPosition, MAX_ITEMS, PartQuery, StoredSort};
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
    fn of(by: &Context, agent: &str) -> Result<Self> {
        let registry = by.registry()?;
        let actor = by.actor();
        let mut known = registry.list_assigned(&actor, agent)?;
        known.extend(registry.list_available(&actor, agent)?);
        let known = known.into_iter().map(|one| (one.slug, (one.id, one.name)));
        let mut integrations: HashMap<_, _> = known.collect();
        let mut servers = HashMap::new();
        for server in visible_servers(&by.state, &by.caller) {
            if server.organisation().is_none() {
                integrations.remove(server.slug());
            }
            servers.insert(server.slug().to_owned(), server);
        }
        for server in by.state.gateway.directory.servers_of(Some(by.caller.organisation())) {
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

    fn describe(&self, by: &Context, slug: &str, stored: Option<Stored>) -> AgentServer {
        let server = self.servers.get(slug);
        let fault = server.and_then(|server| {
            let sees_figures = may_see_figures(&by.caller, &**server);
            let is_operator = by.caller.role == Role::Operator;
            Fault::find(&by.state.gateway, &**server, is_operator, sees_figures)
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
    async fn with_tools(mut self, by: &Context) -> Self {
        let tools = list_tools(by, &self.server).await.into_iter().map(|name| {
            let enabled = !self.hidden_tools.iter().any(|hidden| *hidden == *name);
            AgentTool { name: name.to_string(), enabled }
        });
        self.tools = Some(tools.collect());
        self
    }
}

/// Returns the own names of the tools of a server that the caller may use.
async fn list_tools(by: &Context, slug: &str) -> Vec<Arc<str>> {
    let mut tools = by.state.gateway.visible_items(&by.caller.principal, ListKind::Tools).await;
    tools.retain(|tool| tool.server.slug() == slug);
    tools.into_iter().map(|tool| tool.own).collect()
}

/// Returns the stored servers of an agent by their keys.
fn list_stored(by: &Context, id: &str) -> Result<HashMap<String, Stored>> {
    let stored = by.registry()?.list_agent_servers(&by.actor(), id)?;
    Ok(stored.into_iter().map(|server| (server.server.clone(), server)).collect())
}

pub(crate) async fn list_agent_servers(
    by: By<User>,
    Path(id): Path<String>,
) -> Result<Json<Page<AgentServer>>> {
    let candidates = Candidates::of(&by, &id)?;
    let mut stored = list_stored(&by, &id)?;
    let mut slugs: Vec<&String> = candidates.servers.keys().collect();
    slugs.extend(candidates.integrations.keys());
    slugs.sort();
    slugs.dedup();
    let items = slugs.into_iter().map(|slug| {
        let own = candidates.find_key(slug).and_then(|key| stored.remove(key));
        candidates.describe(&by, slug, own)
    });
    let items: Vec<_> = items.collect();
    Ok(Json(Page { total: items.len(), items, next_cursor: None }))
}

pub(crate) async fn show_agent_server(
    by: By<User>,
    Path((id, slug)): Path<(String, String)>,
) -> Result<Json<AgentServer>> {
    let candidates = Candidates::of(&by, &id)?;
    let key = candidates.find_key(&slug).ok_or_else(unknown_server)?;
    let stored = list_stored(&by, &id)?.remove(key);
    Ok(Json(candidates.describe(&by, &slug, stored).with_tools(&by).await))
}

pub(crate) async fn change_agent_server(
    by: By<User>,
    Path((id, slug)): Path<(String, String)>,
    Body(patch): Body<AgentServerPatch>,
) -> Result<Json<AgentServer>> {
    let candidates = Candidates::of(&by, &id)?;
    let key = candidates.find_key(&slug).ok_or_else(unknown_server)?.to_owned();
    if patch.tools.values().any(|is_on| !is_on) {
        let known = list_tools(&by, &slug).await;
        for (tool, is_on) in &patch.tools {
            if !is_on && !known.iter().any(|known| **known == **tool) {
                let detail = "there is no such tool; the tools of the agent's server show all";
                return Err(Problem::not_found("TOOL_NOT_FOUND", detail));
            }
        }
    }
    let wanted = AgentServerChange { is_assigned: patch.assigned, tools: patch.tools };
    let changed =
        by.make("change server of agent", apply!(change_agent_server(&id, &key, wanted))).await?;
    let server = candidates.describe(&by, &slug, changed.after);
    let dry_run = changed.is_dry_run;
    Ok(Json(AgentServer { dry_run, ..server.with_tools(&by).await }))
}

// Integrations of agents: assigned from the agent's organisation by callers that may change the
// agent.

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

/// Returns a page of the integrations that match the search. By default it has as many
/// as possible, because most agents have few.
fn cut(
    by: &Context,
    Paged { part, filter }: Paged<AssignedQuery>,
    mut all: Vec<(ListPosition, StoredIntegration)>,
) -> Result<Json<Page<Integration>>> {
    let search = filter.search.unwrap_or_default();
    all.retain(|(_, one)| matches_search(one, &search));
    let part = PartQuery { limit: part.limit.or(Some(MAX_ITEMS)), ..part };
    let page = part.cut_placed(all, false)?;
    let states = States::of(by);
    Ok(Json(page.map(|stored| Integration::new(&states, stored))))
}

/// Returns the response with an assignment that was made, or that a dry run would make or remove.
fn answer(by: &Context, assignment: Assignment, dry_run: bool) -> Result<AgentIntegration> {
    let Assignment { agent: agent_id, integration } = assignment;
    let agent = Agent::new(by.registry()?.agent(&by.actor(), &agent_id)?, &by.caller);
    let integration = Integration::new(&States::of(by), integration);
    Ok(AgentIntegration { agent, agent_id, integration, dry_run })
}

pub(crate) async fn list_assigned(
    by: By<User>,
    Path(id): Path<String>,
    Query(query): Query<Paged<AssignedQuery>>,
) -> Result<Json<Page<Integration>>> {
    let all = by.registry()?.list_assigned(&by.actor(), &id)?.into_iter().enumerate();
    let all = all.map(|(at, one)| ((Some(format!("{at:05}")), one.id.clone()), one));
    cut(&by, query, all.collect())
}

pub(crate) async fn list_available(
    by: By<User>,
    Path(id): Path<String>,
    Query(query): Query<Paged<AssignedQuery>>,
) -> Result<Json<Page<Integration>>> {
    let all = by.registry()?.list_available(&by.actor(), &id)?.into_iter();
    cut(&by, query, all.map(|one| (place(&one, StoredSort::Name), one)).collect())
}

pub(crate) async fn assign_integration(
    by: By<User>,
    Path((id, integration)): Path<(String, String)>,
) -> Result<Json<AgentIntegration>> {
    let changed = by.make("assign mcp-integration", apply!(assign(&id, &integration))).await?;
    let assignment = changed.after.ok_or_else(broken)?;
    Ok(Json(answer(&by, assignment, changed.is_dry_run)?))
}

pub(crate) async fn unassign_integration(
    by: By<User>,
    Path((id, integration)): Path<(String, String)>,
) -> Result<Deletion<AgentIntegration>> {
    let changed = by.make("unassign mcp-integration", apply!(unassign(&id, &integration))).await?;
    let assignment = changed.before.filter(|_| changed.is_dry_run);
    Ok(Deletion(assignment.map(|found| answer(&by, found, true)).transpose()?))
}
