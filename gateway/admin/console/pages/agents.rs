//! The agents of the visitor, or for administrators all agents of the organisation.

use askama::Template;
use axum::Json;
use axum::extract::Path;
use axum::http::StatusCode;

use crate::api::agents::{self, Agent, AgentName};
use crate::api::body::Body;
use crate::api::change::Reply;
use crate::api::page::Page;
use crate::api::problem::Problem;
use crate::api::query::query;
use crate::console::api::Api;
use crate::console::diagnosis::Severity;
use crate::console::error::{PageResult, render, show};
use crate::console::fields::{FormFields, QueryFields};
use crate::console::layout::Layout;
use crate::console::page_path::PagePath;
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
