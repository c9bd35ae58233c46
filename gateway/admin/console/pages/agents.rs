//! The agents of the visitor, or for administrators all agents of the organisation, and a page of
//! each: a switch for each available server, and the configuration of its clients.

use std::collections::BTreeMap;

use lockgate_proxy::Items;

use super::*;
use crate::api::agent_servers::{
    AgentServer, AgentServerPatch, AgentTool, change_agent_server, list_agent_servers,
    show_agent_server,
};
use crate::api::agents::{self, AgentName};
use crate::api::change::Reply;

const LABELS: [(&str, &str); 1] = [("name", "Name")];

impl Agent {
    /// Returns the path of the endpoint.
    pub(crate) fn path(&self) -> String {
        format!("/agents/{}/mcp", self.id)
    }

    fn page(&self) -> PagePath {
        PagePath::new(&["agents", &self.id])
    }

    /// Returns the name of the key that owns the agent, or `issuer|subject`.
    pub(crate) fn owner_text(&self) -> &str {
        self.owner_name.as_deref().unwrap_or(&self.owner)
    }
}

/// Returns the name of an agent; the id, or the text of another kind of agent, if the visitor may
/// not see it. Empty without an agent.
pub(crate) async fn name_agent(visit: &Visit, id: &str) -> String {
    if !id.is_empty()
        && let Ok(by) = visit.by()
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
    found: Page<Agent>,
}

/// Lists the visitor's agents, or for administrators all agents of the organisation.
pub(crate) async fn list_agents(visit: Visit) -> PageResult {
    let Json(found) = agents::list_agents(visit.by()?, visit.list_query("100", &[])?).await?;
    visit.show(&AgentsPage { visit: &visit, found })
}

/// Creates an agent, which the visitor owns.
pub(crate) async fn create_agent(visit: Visit) -> PageResult {
    let name = visit.form.get("name").to_owned();
    match agents::create_agent(visit.by()?, Body(AgentName { name })).await {
        Ok(Reply { value: agent, .. }) => {
            let text = format!("{} was created. Turn on the servers that it may use.", agent.name);
            visit.done(agent.page(), text)
        }
        Err(problem) => list_agents(visit.mistaken(problem, &LABELS)?).await,
    }
}

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
}

#[derive(Template)]
#[template(path = "agent_delete.html")]
struct DeletePage<'a> {
    visit: &'a Visit,
    agent: Agent,
}

pub(crate) async fn show_agent(visit: Visit, Path(id): Path<String>) -> PageResult {
    let agent = load(&visit, &id).await?;
    let Json(found) = list_agent_servers(visit.by()?, Path(id.clone())).await?;
    let mut servers = found.items;
    servers.sort_by(|one, other| (!one.assigned, &one.name).cmp(&(!other.assigned, &other.name)));
    let open = visit.query.get("server");
    let mut open_name = String::new();
    let mut tools = Vec::new();
    if !open.is_empty() {
        let names = (id, open.to_owned());
        let Json(server) = show_agent_server(visit.by()?, Path(names)).await?;
        open_name = server.name;
        tools = server.tools.unwrap_or_default();
    }
    let wanted = visit.query.get("q").to_lowercase();
    tools.retain(|tool| tool.name.to_lowercase().contains(&wanted));
    visit.show(&AgentPage {
        address: find_address(&agent.endpoint, &visit.headers),
        snippets: visit.make_snippets(&agent.name, &agent.endpoint, None),
        tools: visit.cut(tools),
        visit: &visit,
        agent,
        servers,
        open,
        open_name,
    })
}

async fn load(visit: &Visit, id: &str) -> Result<Agent, Problem> {
    Ok(agents::show_agent(visit.by()?, Path(id.to_owned())).await?.value)
}

/// Renames an agent, or sets the form of its list of tools.
pub(crate) async fn change_agent(visit: Visit, Path(id): Path<String>) -> PageResult {
    let (patch, done) = match visit.form.get("tools") {
        "" => (json!({"name": visit.form.get("name")}), "The name was changed."),
        tools => (json!({"tools": tools}), "The list of tools was changed."),
    };
    match agents::change_agent(visit.by()?, Path(id.clone()), body(patch)?).await {
        Ok(Reply { value: agent, .. }) => visit.done(agent.page(), done),
        Err(problem) => show_agent(visit.mistaken(problem, &LABELS)?, Path(id)).await,
    }
}

/// Asks for confirmation before an agent is deleted.
pub(crate) async fn show_deletion(visit: Visit, Path(id): Path<String>) -> PageResult {
    visit.show(&DeletePage { visit: &visit, agent: load(&visit, &id).await? })
}

/// Deletes an agent and its endpoint.
pub(crate) async fn delete_agent(visit: Visit, Path(id): Path<String>) -> PageResult {
    let by = visit.by()?.expecting(visit.form.get("version"))?;
    agents::delete_agent(by, Path(id)).await?;
    visit.done(PagePath::new(&["agents"]), "The agent was deleted.")
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
    let page = PagePath::new(&["agents", &id])
        .with("server", visit.form.get("open"))
        .with("q", visit.form.get("q"))
        // `page` of a form is its unique number.
        .with("page", visit.form.get("part"));
    let mark = match tool {
        "" => format!("switch-{server}"),
        _ => format!("tool-{}", visit.form.get("at").parse::<u16>().unwrap_or(1)),
    };
    Ok(redirect(&format!("{}#{mark}", page.as_str())))
}

// The items of an agent: patterns, other names and other descriptions, a line each.

/// The fields of the form: the name of each in the API, and its label.
const FIELDS: [(&str, &str); 5] = [
    ("tools", "Tools"),
    ("prompts", "Prompts"),
    ("resources", "Resources, templates and skills"),
    ("rename", "Other names"),
    ("describe", "Other descriptions"),
];
#[derive(Template)]
#[template(path = "agent_items.html")]
struct ItemsPage<'a> {
    visit: &'a Visit,
    agent: Agent,
    stored: BTreeMap<&'static str, String>,
}

pub(crate) async fn show_items(visit: Visit, Path(id): Path<String>) -> PageResult {
    let agent = load(&visit, &id).await?;
    let stored = write(agent.items.as_ref());
    visit.show(&ItemsPage { visit: &visit, agent, stored })
}

/// Sets the items, or gives the agent all items of its servers again.
pub(crate) async fn change_items(visit: Visit, Path(id): Path<String>) -> PageResult {
    match save_items(&visit, &id).await {
        Ok(agent) => visit.done(agent.page(), "The items were changed."),
        Err(problem) => show_items(visit.mistaken(problem, &FIELDS)?, Path(id)).await,
    }
}

async fn save_items(visit: &Visit, id: &str) -> Result<Agent, Problem> {
    let by = visit.by()?.expecting(visit.form.get("version"))?;
    let is_for_all = visit.form.get("action") == "all";
    let items = if is_for_all { Value::Null } else { read(&visit.form)? };
    let patch = body(json!({"items": items}))?;
    Ok(agents::change_agent(by, Path(id.to_owned()), patch).await?.value)
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
