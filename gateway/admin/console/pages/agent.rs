//! An agent: a switch for each available server, and the configuration of its clients.

use askama::Template;
use axum::extract::Path;
use axum::http::{HeaderMap, Method, StatusCode};
use serde::Deserialize;
use serde_json::json;

use super::agents::Agent;
use crate::console::api_client::{ApiClient, ApiError, ApiPath, List, sentence};
use crate::console::diagnosis::{ServerState, Severity};
use crate::console::error::{PageResult, render, show};
use crate::console::fields::{Fields, FormFields, QueryFields};
use crate::console::layout::Layout;
use crate::console::list_part::ListPart;
use crate::console::redirect::redirect;
use crate::console::snippets::{Snippet, find_address, make_snippets};
use crate::fault::Fault;

/// A server that the agent has or could have, as returned by the API.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct AgentServer {
    server: String,
    name: String,
    assigned: bool,
    state: String,
    fault: Option<Fault>,
    hidden_tools: Vec<String>,
    tools: Vec<AgentTool>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct AgentTool {
    name: String,
    enabled: bool,
}

impl AgentServer {
    /// Returns the state as on the page of the server.
    fn shown(&self) -> ServerState {
        ServerState { state: self.state.clone(), fault: self.fault.clone(), ..Default::default() }
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
    /// The server whose tools are shown, with the search in their names.
    open: AgentServer,
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
    api: ApiClient,
    headers: HeaderMap,
    Path(id): Path<String>,
    QueryFields(fields): QueryFields,
) -> PageResult {
    show(&load_page(&layout, &api, &headers, (&id, &fields)).await?)
}

async fn load_page<'a>(
    layout: &'a Layout,
    api: &ApiClient,
    headers: &HeaderMap,
    (id, fields): (&str, &Fields),
) -> Result<AgentPage<'a>, ApiError> {
    let agent: Agent = api.get(&agent_path(id)?).await?;
    let path = ApiPath::new(&["api", "agents", id, "servers"])?;
    let List { items: mut servers, .. }: List<AgentServer> = api.get(&path).await?;
    servers.sort_by(|one, other| (!one.assigned, &one.name).cmp(&(!other.assigned, &other.name)));
    let slug = fields.get("server");
    let mut open = AgentServer::default();
    if !slug.is_empty() {
        open = api.get(&ApiPath::new(&["api", "agents", id, "servers", slug])?).await?;
    }
    let search = fields.get("q").to_owned();
    let wanted = search.to_lowercase();
    let mut tools = std::mem::take(&mut open.tools);
    tools.retain(|tool| tool.name.to_lowercase().contains(&wanted));
    let tools = ListPart::cut(tools, fields.get("page"), &tools_path(id, slug, &search)?);
    let address = find_address(&agent.endpoint, headers);
    let needs_key = matches!(&layout.who, Some(who) if who.has_session);
    let snippets = make_snippets(&agent.name, &address, None, needs_key);
    let page = fields.get("page").to_owned();
    Ok(AgentPage {
        layout,
        agent,
        address,
        servers,
        open,
        search,
        page,
        tools,
        snippets,
        name: "",
        mistake: "",
    })
}

/// Returns the page of an agent with the tools of a server.
fn tools_path(id: &str, server: &str, search: &str) -> Result<ApiPath, ApiError> {
    Ok(ApiPath::new(&["console", "agents", id])?.with("server", server).with("q", search))
}

fn agent_path(id: &str) -> Result<ApiPath, ApiError> {
    ApiPath::new(&["api", "agents", id])
}

/// Renames an agent, or sets the form of its list of tools.
pub(crate) async fn change_agent(
    layout: Layout,
    api: ApiClient,
    headers: HeaderMap,
    Path(id): Path<String>,
    FormFields(fields): FormFields,
) -> PageResult {
    let name = fields.get("name");
    let tools = fields.get("tools");
    let (body, done) = match tools {
        "" => (json!({"name": name}), "The name was changed."),
        tools => (json!({"tools": tools}), "The list of tools was changed."),
    };
    let changed = api.change(Method::PATCH, &agent_path(&id)?, Some(&body), None).await;
    let error = match changed {
        Ok(_) => {
            let page = ApiPath::new(&["console", "agents", &id])?;
            return Ok(layout.redirect_with(page, Severity::Good, done));
        }
        Err(error) if error.is_of_form() => error,
        Err(error) => return Err(error.into()),
    };
    let mistake = sentence(&error.detail);
    let page = load_page(&layout, &api, &headers, (&id, &Fields::default())).await?;
    render(StatusCode::UNPROCESSABLE_ENTITY, &AgentPage { name, mistake: &mistake, ..page })
}

/// Asks for confirmation before an agent is deleted.
pub(crate) async fn show_deletion(
    layout: Layout,
    api: ApiClient,
    Path(id): Path<String>,
) -> PageResult {
    let agent: Agent = api.get(&agent_path(&id)?).await?;
    show(&DeletePage { layout: &layout, agent })
}

/// Deletes an agent and its endpoint.
pub(crate) async fn delete_agent(
    layout: Layout,
    api: ApiClient,
    Path(id): Path<String>,
    FormFields(fields): FormFields,
) -> PageResult {
    api.change(Method::DELETE, &agent_path(&id)?, None, Some(fields.get("version"))).await?;
    let page = ApiPath::new(&["console", "agents"])?;
    Ok(layout.redirect_with(page, Severity::Good, "The agent was deleted."))
}

/// Assigns a server to an agent or unassigns it, or switches a tool of it on or off.
pub(crate) async fn switch_server(
    api: ApiClient,
    Path((id, server)): Path<(String, String)>,
    FormFields(fields): FormFields,
) -> PageResult {
    let is_on = fields.get("on") == "yes";
    let tool = fields.get("tool");
    let body =
        if tool.is_empty() { json!({"assigned": is_on}) } else { json!({"tools": {tool: is_on}}) };
    let path = ApiPath::new(&["api", "agents", &id, "servers", &server])?;
    api.change(Method::PATCH, &path, Some(&body), None).await?;
    let page = tools_path(&id, fields.get("open"), fields.get("q"))?;
    let page = page.with("page", fields.get("page"));
    let mark = match tool {
        "" => format!("switch-{server}"),
        _ => format!("tool-{}", fields.get("at").parse::<u16>().unwrap_or(1)),
    };
    Ok(redirect(&format!("{}#{mark}", page.as_str())))
}
