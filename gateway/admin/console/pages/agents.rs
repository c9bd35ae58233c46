//! The agents of the visitor, or for administrators all agents of the organisation, and a page of
//! each: a switch for each available server, and the configuration of its clients.

use std::collections::BTreeMap;

use askama::Template;
use axum::Json;
use axum::extract::Path;
use axum::http::{HeaderMap, StatusCode};
use serde_json::json;

use crate::api::agent_servers::{
    AgentServer, AgentServerPatch, AgentTool, change_agent_server, list_agent_servers,
    show_agent_server,
};
use crate::api::agents::{self, Agent, AgentName};
use crate::api::body::{Body, body};
use crate::api::change::Reply;
use crate::api::page::Page;
use crate::api::problem::Problem;
use crate::api::query::query;
use crate::console::api::Api;
use crate::console::diagnosis::{Severity, say_server_state};
use crate::console::error::{PageResult, render, show};
use crate::console::fields::{Fields, FormFields, QueryFields};
use crate::console::layout::Layout;
use crate::console::list_part::ListPart;
use crate::console::redirect::PagePath;
use crate::console::redirect::redirect;
use crate::console::snippets::{Snippet, find_address, make_snippets};
use crate::fault::sentence;

impl Agent {
    /// Returns the path of the endpoint.
    pub(crate) fn path(&self) -> String {
        format!("/agents/{}/mcp", self.id)
    }

    /// Returns the name of the key that owns the agent, or `issuer|subject`.
    pub(crate) fn owner_text(&self) -> &str {
        self.owner_name.as_deref().unwrap_or(&self.owner)
    }
}

/// Returns the name of an agent; the id, or the text of another kind of agent, if the visitor may
/// not see it.
pub(crate) async fn name_agent(api: &Api, id: &str) -> String {
    if let Ok(by) = api.by()
        && let Ok(agent) = agents::show_agent(by, Path(id.to_owned())).await
    {
        return agent.value.name;
    }
    id.to_owned()
}

#[derive(Template)]
#[template(path = "agents.html")]
struct AgentsPage<'a> {
    layout: &'a Layout,
    search: &'a str,
    agents: Vec<Agent>,
    total: usize,
    next: Option<String>,
    /// The entered name and its mistake.
    name: &'a str,
    mistake: &'a str,
}

/// Lists the visitor's agents, or for administrators all agents of the organisation.
pub(crate) async fn list_agents(
    layout: Layout,
    api: Api,
    QueryFields(fields): QueryFields,
) -> PageResult {
    let page = load_page(&layout, &api, fields.get("q"), fields.get("after")).await?;
    show(&page)
}

async fn load_page<'a>(
    layout: &'a Layout,
    api: &Api,
    search: &'a str,
    after: &str,
) -> Result<AgentsPage<'a>, Problem> {
    let filter = query(&[("limit", "100"), ("search", search), ("cursor", after)])?;
    let Json(found) = agents::list_agents(api.by()?, filter).await?;
    let next = PagePath::new(&["console", "agents"]).with("q", search);
    let next = next.after(found.next_cursor.as_deref());
    let Page { items: agents, total, .. } = found;
    Ok(AgentsPage { layout, search, agents, total, next, name: "", mistake: "" })
}

/// Creates an agent, which the visitor owns.
pub(crate) async fn create_agent(
    layout: Layout,
    api: Api,
    FormFields(fields): FormFields,
) -> PageResult {
    let name = fields.get("name");
    let body = Body(AgentName { name: name.to_owned() });
    let problem = match agents::create_agent(api.by()?, body).await {
        Ok(Reply { value: agent, .. }) => {
            let page = PagePath::new(&["console", "agents", &agent.id]);
            let text = format!("{} was created. Turn on the servers that it may use.", agent.name);
            return Ok(layout.redirect_with(page, Severity::Good, &text));
        }
        Err(problem) if problem.is_of_form() => problem,
        Err(problem) => return Err(problem.into()),
    };
    let mistake = sentence(problem.detail());
    let page = load_page(&layout, &api, "", "").await?;
    render(StatusCode::UNPROCESSABLE_ENTITY, &AgentsPage { name, mistake: &mistake, ..page })
}

impl AgentServer {
    fn severity(&self) -> Severity {
        Severity::of_server(self.state, self.fault.as_ref())
    }

    /// Returns the state as on the page of the server.
    fn state_text(&self) -> &str {
        say_server_state(self.state, self.fault.as_ref())
    }
}

/// The forms of an agent's list of tools, by the name in the API.
const TOOL_LISTS: [(&str, &str); 4] = [
    ("default", "As the operator set"),
    ("full", "All tools"),
    ("search", "Tools that find and call the others"),
    ("auto", "All if they are few, otherwise search"),
];

#[derive(Template)]
#[template(path = "agent.html")]
struct AgentPage<'a> {
    layout: &'a Layout,
    agent: Agent,
    address: String,
    servers: Vec<AgentServer>,
    /// The slug and the name of the server whose tools are shown; empty without one.
    open: String,
    open_name: String,
    /// The search in the names of its tools.
    search: String,
    page: String,
    tools: ListPart<AgentTool>,
    snippets: Vec<Snippet>,
    /// The entered name and its mistake.
    name: &'a str,
    mistake: &'a str,
}

#[derive(Template)]
#[template(path = "agent_delete.html")]
struct DeletePage<'a> {
    layout: &'a Layout,
    agent: Agent,
}

pub(crate) async fn show_agent(
    layout: Layout,
    api: Api,
    headers: HeaderMap,
    Path(id): Path<String>,
    QueryFields(fields): QueryFields,
) -> PageResult {
    show(&load_agent_page(&layout, &api, &headers, (&id, &fields)).await?)
}

async fn load_agent_page<'a>(
    layout: &'a Layout,
    api: &Api,
    headers: &HeaderMap,
    (id, fields): (&str, &Fields),
) -> Result<AgentPage<'a>, Problem> {
    let agent = agents::show_agent(api.by()?, Path(id.to_owned())).await?.value;
    let Json(found) = list_agent_servers(api.by()?, Path(id.to_owned())).await?;
    let mut servers = found.items;
    servers.sort_by(|one, other| (!one.assigned, &one.name).cmp(&(!other.assigned, &other.name)));
    let slug = fields.get("server");
    let mut open_name = String::new();
    let mut tools = Vec::new();
    if !slug.is_empty() {
        let names = (id.to_owned(), slug.to_owned());
        let Json(open) = show_agent_server(api.by()?, Path(names)).await?;
        open_name = open.name;
        tools = open.tools.unwrap_or_default();
    }
    let search = fields.get("q").to_owned();
    let wanted = search.to_lowercase();
    tools.retain(|tool| tool.name.to_lowercase().contains(&wanted));
    let tools = ListPart::cut(tools, fields.get("page"), &tools_path(id, slug, &search));
    let address = find_address(&agent.endpoint, headers);
    let needs_key = matches!(&layout.who, Some(who) if who.has_session);
    let snippets = make_snippets(&agent.name, &address, None, needs_key);
    let page = fields.get("page").to_owned();
    Ok(AgentPage {
        layout,
        agent,
        address,
        servers,
        open: slug.to_owned(),
        open_name,
        search,
        page,
        tools,
        snippets,
        name: "",
        mistake: "",
    })
}

/// Returns the page of an agent with the tools of a server.
fn tools_path(id: &str, server: &str, search: &str) -> PagePath {
    PagePath::new(&["console", "agents", id]).with("server", server).with("q", search)
}

/// Renames an agent, or sets the form of its list of tools.
pub(crate) async fn change_agent(
    layout: Layout,
    api: Api,
    headers: HeaderMap,
    Path(id): Path<String>,
    FormFields(fields): FormFields,
) -> PageResult {
    let name = fields.get("name");
    let tools = fields.get("tools");
    let (patch, done) = match tools {
        "" => (json!({"name": name}), "The name was changed."),
        tools => (json!({"tools": tools}), "The list of tools was changed."),
    };
    let problem = match agents::change_agent(api.by()?, Path(id.clone()), body(patch)?).await {
        Ok(_) => {
            let page = PagePath::new(&["console", "agents", &id]);
            return Ok(layout.redirect_with(page, Severity::Good, done));
        }
        Err(problem) if problem.is_of_form() => problem,
        Err(problem) => return Err(problem.into()),
    };
    let mistake = sentence(problem.detail());
    let page = load_agent_page(&layout, &api, &headers, (&id, &Fields::default())).await?;
    render(StatusCode::UNPROCESSABLE_ENTITY, &AgentPage { name, mistake: &mistake, ..page })
}

/// Asks for confirmation before an agent is deleted.
pub(crate) async fn show_deletion(layout: Layout, api: Api, Path(id): Path<String>) -> PageResult {
    let agent = agents::show_agent(api.by()?, Path(id)).await?.value;
    show(&DeletePage { layout: &layout, agent })
}

/// Deletes an agent and its endpoint.
pub(crate) async fn delete_agent(
    layout: Layout,
    api: Api,
    Path(id): Path<String>,
    FormFields(fields): FormFields,
) -> PageResult {
    let by = api.by()?.expecting(fields.get("version"))?;
    agents::delete_agent(by, Path(id)).await?;
    let page = PagePath::new(&["console", "agents"]);
    Ok(layout.redirect_with(page, Severity::Good, "The agent was deleted."))
}

/// Assigns a server to an agent or unassigns it, or switches a tool of it on or off.
pub(crate) async fn switch_server(
    api: Api,
    Path((id, server)): Path<(String, String)>,
    FormFields(fields): FormFields,
) -> PageResult {
    let is_on = fields.get("on") == "yes";
    let tool = fields.get("tool");
    let assigned = tool.is_empty().then_some(is_on);
    let mut tools = BTreeMap::new();
    if !tool.is_empty() {
        tools.insert(tool.to_owned(), is_on);
    }
    let names = (id.clone(), server.clone());
    let patch = AgentServerPatch { assigned, tools };
    let Json(_) = change_agent_server(api.by()?, Path(names), Body(patch)).await?;
    let page = tools_path(&id, fields.get("open"), fields.get("q"));
    let page = page.with("page", fields.get("page"));
    let mark = match tool {
        "" => format!("switch-{server}"),
        _ => format!("tool-{}", fields.get("at").parse::<u16>().unwrap_or(1)),
    };
    Ok(redirect(&format!("{}#{mark}", page.as_str())))
}
