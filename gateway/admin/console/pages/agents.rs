//! The agents of the visitor, or for administrators all agents of the organisation.

use askama::Template;
use axum::http::StatusCode;
use serde::Deserialize;
use serde_json::json;

use crate::console::api_client::{ApiClient, ApiError, ApiPath, List, sentence};
use crate::console::diagnosis::Severity;
use crate::console::error::{PageResult, render, show};
use crate::console::fields::{FormFields, QueryFields};
use crate::console::layout::Layout;

/// An agent as returned by the API.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Agent {
    pub(crate) id: String,
    pub(crate) name: String,
    owner: String,
    owner_name: Option<String>,
    pub(crate) version: i64,
    pub(crate) endpoint: String,
    /// The form of its list of tools.
    pub(crate) tools: String,
    pub(crate) created_at: String,
}

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
pub(crate) async fn name_agent(api: &ApiClient, id: &str) -> String {
    if let Ok(path) = ApiPath::new(&["api", "agents", id])
        && let Ok(agent) = api.get::<Agent>(&path).await
    {
        return agent.name;
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
    api: ApiClient,
    QueryFields(fields): QueryFields,
) -> PageResult {
    let page = load_page(&layout, &api, fields.get("q"), fields.get("after")).await?;
    show(&page)
}

async fn load_page<'a>(
    layout: &'a Layout,
    api: &ApiClient,
    search: &'a str,
    after: &str,
) -> Result<AgentsPage<'a>, ApiError> {
    let path = ApiPath::new(&["api", "agents"])?
        .with("limit", "100")
        .with("search", search)
        .with("cursor", after);
    let found: List<Agent> = api.get(&path).await?;
    let mut next = None;
    if let Some(cursor) = &found.next_cursor {
        let page = ApiPath::new(&["console", "agents"])?.with("q", search).with("after", cursor);
        next = Some(page.as_str().to_owned());
    }
    let List { items: agents, total, .. } = found;
    Ok(AgentsPage { layout, search, agents, total, next, name: "", mistake: "" })
}

/// Creates an agent, which the visitor owns.
pub(crate) async fn create_agent(
    layout: Layout,
    api: ApiClient,
    FormFields(fields): FormFields,
) -> PageResult {
    let name = fields.get("name");
    let path = ApiPath::new(&["api", "agents"])?;
    let created: Result<Agent, ApiError> = api.ask(&path, &json!({"name": name})).await;
    let error = match created {
        Ok(agent) => {
            let page = ApiPath::new(&["console", "agents", &agent.id])?;
            let text = format!("{} was created. Turn on the servers that it may use.", agent.name);
            return Ok(layout.redirect_with(page, Severity::Good, &text));
        }
        Err(error) if error.is_of_form() => error,
        Err(error) => return Err(error.into()),
    };
    let mistake = sentence(&error.detail);
    let page = load_page(&layout, &api, "", "").await?;
    render(StatusCode::UNPROCESSABLE_ENTITY, &AgentsPage { name, mistake: &mistake, ..page })
}
