//! The agents of the visitor, or for administrators all agents of the organisation, and a page of
//! each: a switch for each available server, and the configuration of its clients.

use std::collections::BTreeMap;

use askama::Template;
use axum::Json;
use axum::extract::Path;
use axum::http::StatusCode;
use lockgate_proxy::Items;
use serde_json::{Value, json};

use crate::api::agent_servers::{
    AgentServer, AgentServerPatch, AgentTool, change_agent_server, list_agent_servers,
    show_agent_server,
};
use crate::api::agents::{self, Agent, AgentName};
use crate::api::body::{Body, body};
use crate::api::change::Reply;
use crate::api::page::Page;
use crate::api::problem::Problem;
use crate::console::diagnosis::{Severity, say_server_state};
use crate::console::form::{Fields, FormError};
use crate::console::redirect::{ListPart, PagePath, redirect};
use crate::console::render::{PageResult, render, show};
use crate::console::snippets::{Snippet, find_address, make_snippets};
use crate::console::visit::Visit;
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
pub(crate) async fn name_agent(visit: &Visit, id: &str) -> String {
    if let Ok(by) = visit.by()
        && let Ok(agent) = agents::show_agent(by, Path(id.to_owned())).await
    {
        return agent.value.name;
    }
    id.to_owned()
}

#[derive(Template)]
#[template(path = "agents.html")]
struct AgentsPage<'a> {
    visit: &'a Visit,
    agents: Vec<Agent>,
    total: usize,
    next: Option<String>,
    /// The entered name and its mistake.
    name: &'a str,
    mistake: &'a str,
}

/// Lists the visitor's agents, or for administrators all agents of the organisation.
pub(crate) async fn list_agents(visit: Visit) -> PageResult {
    show(&load_page(&visit).await?)
}

async fn load_page(visit: &Visit) -> Result<AgentsPage<'_>, Problem> {
    let Json(found) = agents::list_agents(visit.by()?, visit.list_query("100", &[])?).await?;
    let next = visit.next(&["q"], found.next_cursor.as_deref());
    let Page { items: agents, total, .. } = found;
    Ok(AgentsPage { visit, agents, total, next, name: "", mistake: "" })
}

/// Creates an agent, which the visitor owns.
pub(crate) async fn create_agent(visit: Visit) -> PageResult {
    let name = visit.form.get("name");
    let body = Body(AgentName { name: name.to_owned() });
    let problem = match agents::create_agent(visit.by()?, body).await {
        Ok(Reply { value: agent, .. }) => {
            let page = PagePath::new(&["console", "agents", &agent.id]);
            let text = format!("{} was created. Turn on the servers that it may use.", agent.name);
            return Ok(visit.redirect_with(page, Severity::Good, &text));
        }
        Err(problem) if problem.is_of_form() => problem,
        Err(problem) => return Err(problem.into()),
    };
    let mistake = sentence(problem.detail());
    let page = load_page(&visit).await?;
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
    visit: &'a Visit,
    agent: Agent,
    address: String,
    servers: Vec<AgentServer>,
    /// The slug and the name of the server whose tools are shown; empty without one.
    open: &'a str,
    open_name: String,
    tools: ListPart<AgentTool>,
    snippets: Vec<Snippet>,
    /// The entered name and its mistake.
    name: &'a str,
    mistake: &'a str,
}

#[derive(Template)]
#[template(path = "agent_delete.html")]
struct DeletePage<'a> {
    visit: &'a Visit,
    agent: Agent,
}

pub(crate) async fn show_agent(visit: Visit, Path(id): Path<String>) -> PageResult {
    show(&load_agent_page(&visit, &id).await?)
}

async fn load_agent_page<'a>(visit: &'a Visit, id: &str) -> Result<AgentPage<'a>, Problem> {
    let agent = agents::show_agent(visit.by()?, Path(id.to_owned())).await?.value;
    let Json(found) = list_agent_servers(visit.by()?, Path(id.to_owned())).await?;
    let mut servers = found.items;
    servers.sort_by(|one, other| (!one.assigned, &one.name).cmp(&(!other.assigned, &other.name)));
    let slug = visit.query.get("server");
    let mut open_name = String::new();
    let mut tools = Vec::new();
    if !slug.is_empty() {
        let names = (id.to_owned(), slug.to_owned());
        let Json(open) = show_agent_server(visit.by()?, Path(names)).await?;
        open_name = open.name;
        tools = open.tools.unwrap_or_default();
    }
    let search = visit.query.get("q");
    let wanted = search.to_lowercase();
    tools.retain(|tool| tool.name.to_lowercase().contains(&wanted));
    let tools = ListPart::cut(tools, visit.query.get("page"), &tools_path(id, slug, search));
    let address = find_address(&agent.endpoint, &visit.headers);
    let needs_key = matches!(&visit.who, Some(who) if who.has_session);
    let snippets = make_snippets(&agent.name, &address, None, needs_key);
    Ok(AgentPage {
        visit,
        agent,
        address,
        servers,
        open: slug,
        open_name,
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
pub(crate) async fn change_agent(visit: Visit, Path(id): Path<String>) -> PageResult {
    let name = visit.form.get("name");
    let tools = visit.form.get("tools");
    let (patch, done) = match tools {
        "" => (json!({"name": name}), "The name was changed."),
        tools => (json!({"tools": tools}), "The list of tools was changed."),
    };
    let problem = match agents::change_agent(visit.by()?, Path(id.clone()), body(patch)?).await {
        Ok(_) => {
            let page = PagePath::new(&["console", "agents", &id]);
            return Ok(visit.redirect_with(page, Severity::Good, done));
        }
        Err(problem) if problem.is_of_form() => problem,
        Err(problem) => return Err(problem.into()),
    };
    let mistake = sentence(problem.detail());
    let page = load_agent_page(&visit, &id).await?;
    render(StatusCode::UNPROCESSABLE_ENTITY, &AgentPage { name, mistake: &mistake, ..page })
}

/// Asks for confirmation before an agent is deleted.
pub(crate) async fn show_deletion(visit: Visit, Path(id): Path<String>) -> PageResult {
    let agent = agents::show_agent(visit.by()?, Path(id)).await?.value;
    show(&DeletePage { visit: &visit, agent })
}

/// Deletes an agent and its endpoint.
pub(crate) async fn delete_agent(visit: Visit, Path(id): Path<String>) -> PageResult {
    let by = visit.by()?.expecting(visit.form.get("version"))?;
    agents::delete_agent(by, Path(id)).await?;
    let page = PagePath::new(&["console", "agents"]);
    Ok(visit.redirect_with(page, Severity::Good, "The agent was deleted."))
}

/// Assigns a server to an agent or unassigns it, or switches a tool of it on or off.
pub(crate) async fn switch_server(
    visit: Visit,
    Path((id, server)): Path<(String, String)>,
) -> PageResult {
    let is_on = visit.form.get("on") == "yes";
    let tool = visit.form.get("tool");
    let assigned = tool.is_empty().then_some(is_on);
    let mut tools = BTreeMap::new();
    if !tool.is_empty() {
        tools.insert(tool.to_owned(), is_on);
    }
    let names = (id.clone(), server.clone());
    let patch = AgentServerPatch { assigned, tools };
    let Json(_) = change_agent_server(visit.by()?, Path(names), Body(patch)).await?;
    let page = tools_path(&id, visit.form.get("open"), visit.form.get("q"));
    // `page` of a form is its unique number.
    let page = page.with("page", visit.form.get("part"));
    let mark = match tool {
        "" => format!("switch-{server}"),
        _ => format!("tool-{}", visit.form.get("at").parse::<u16>().unwrap_or(1)),
    };
    Ok(redirect(&format!("{}#{mark}", page.as_str())))
}

// The items of an agent: patterns, other names and other descriptions, a line each.

/// A field of the form: its name in the API, its label and its hint.
type Field = (&'static str, &'static str, &'static str);

const FIELDS: [Field; 5] = [
    ("tools", "Tools", "A pattern per line: github/search_*, or * for all. None if empty."),
    ("prompts", "Prompts", "Likewise."),
    ("resources", "Resources, templates and skills", "Likewise, with URIs: wiki/page://*."),
    ("rename", "Other names", "Such as github/create_issue = report_bug."),
    ("describe", "Other descriptions", "Such as github/create_issue = Reports a bug."),
];

#[derive(Template)]
#[template(path = "agent_items.html")]
struct ItemsPage<'a> {
    visit: &'a Visit,
    agent: Agent,
    typed: BTreeMap<&'static str, String>,
    mistake: FormError,
}

impl ItemsPage<'_> {
    fn value(&self, field: &str) -> &str {
        self.typed.get(field).map_or("", String::as_str)
    }
}

pub(crate) async fn show_items(visit: Visit, Path(id): Path<String>) -> PageResult {
    let agent = agents::show_agent(visit.by()?, Path(id)).await?.value;
    let typed = write(agent.items.as_ref());
    show(&ItemsPage { visit: &visit, agent, typed, mistake: FormError::default() })
}

/// Sets the items, or gives the agent all items of its servers again.
pub(crate) async fn change_items(visit: Visit, Path(id): Path<String>) -> PageResult {
    let by = visit.by()?.expecting(visit.form.get("version"))?;
    let items = if visit.form.get("action") == "all" { Ok(Value::Null) } else { read(&visit.form) };
    let answer = match items.and_then(|items| body(json!({"items": items}))) {
        Ok(patch) => agents::change_agent(by, Path(id.clone()), patch).await,
        Err(problem) => Err(problem),
    };
    let problem = match answer {
        Ok(_) => {
            let page = PagePath::new(&["console", "agents", &id]);
            return Ok(visit.redirect_with(page, Severity::Good, "The items were changed."));
        }
        Err(problem) if problem.is_of_form() => problem,
        Err(problem) => return Err(problem.into()),
    };
    let agent = agents::show_agent(visit.by()?, Path(id)).await?.value;
    let typed: BTreeMap<_, _> = FIELDS
        .into_iter()
        .map(|(name, ..)| (name, visit.form.get_exact(name).to_owned()))
        .collect();
    let field = problem.pointer().strip_prefix("/items/").unwrap_or("");
    let field = field.split('/').next().unwrap_or("");
    let mistake = FormError::new(field, &sentence(problem.detail()));
    let page = ItemsPage { visit: &visit, agent, typed, mistake };
    render(StatusCode::UNPROCESSABLE_ENTITY, &page)
}

/// Returns the text of each field; all items for an agent without a choice.
fn write(items: Option<&Items>) -> BTreeMap<&'static str, String> {
    let any = vec!["*".to_owned()];
    let all =
        Items { tools: any.clone(), prompts: any.clone(), resources: any, ..Items::default() };
    let items = items.unwrap_or(&all);
    BTreeMap::from([
        ("tools", items.tools.join("\n")),
        ("prompts", items.prompts.join("\n")),
        ("resources", items.resources.join("\n")),
        ("rename", write_pairs(&items.rename)),
        ("describe", write_pairs(&items.describe)),
    ])
}

fn write_pairs(pairs: &BTreeMap<String, String>) -> String {
    let mut text = String::new();
    for (key, value) in pairs {
        text.push_str(&format!("{key} = {}\n", value.replace('\n', "\\n")));
    }
    text
}

/// Reads the fields in the format of the API.
fn read(fields: &Fields) -> Result<Value, Problem> {
    let mut items = json!({});
    for name in ["tools", "prompts", "resources"] {
        items[name] = lines(fields, name).collect();
    }
    for name in ["rename", "describe"] {
        let mut pairs = BTreeMap::new();
        for line in lines(fields, name) {
            let Some((key, value)) = line.split_once(" = ") else {
                let detail = format!("`{line}` must have the form `name = text`");
                return Err(Problem::in_body(&format!("/items/{name}"), detail));
            };
            pairs.insert(key.trim(), value.trim().replace("\\n", "\n"));
        }
        items[name] = json!(pairs);
    }
    Ok(items)
}

fn lines<'a>(fields: &'a Fields, name: &str) -> impl Iterator<Item = &'a str> {
    fields.get_exact(name).lines().map(str::trim).filter(|line| !line.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_read_as_they_are_written() {
        let items = json!({"tools": ["a/*", "b/{x,y}"], "prompts": [], "resources": ["*"],
            "rename": {"a/t": "ask"}, "describe": {"a/t": "Asks = often.\nTwice."}});
        let typed = write(Some(&serde_json::from_value(items.clone()).unwrap()));
        let mut form = form_urlencoded::Serializer::new(String::new());
        for (name, text) in typed {
            form.append_pair(name, &text.replace('\n', "\r\n"));
        }
        assert_eq!(read(&Fields::parse(form.finish().as_bytes())).unwrap(), items);
    }
}
