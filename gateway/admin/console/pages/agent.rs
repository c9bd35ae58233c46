//! An agent: a switch for each available server, and the configuration of its clients.

use askama::Template;
use axum::extract::Path;
use axum::http::{HeaderMap, Method, StatusCode};
use serde_json::json;

use super::agents::Agent;
use super::integration::Integration;
use crate::console::api_client::{ApiClient, ApiError, ApiPath, List, sentence};
use crate::console::diagnosis::Severity;
use crate::console::error::{PageResult, render, show};
use crate::console::fields::FormFields;
use crate::console::layout::Layout;
use crate::console::redirect::redirect;
use crate::console::snippets::{Snippet, find_address, make_snippets};

/// A server, and whether it is assigned to the agent.
pub(crate) struct Switch {
    pub(crate) integration: Integration,
    pub(crate) is_on: bool,
}

#[derive(Template)]
#[template(path = "agent.html")]
struct AgentPage<'a> {
    layout: &'a Layout,
    agent: Agent,
    address: String,
    switches: Vec<Switch>,
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
) -> PageResult {
    show(&load_page(&layout, &api, &headers, &id).await?)
}

async fn load_page<'a>(
    layout: &'a Layout,
    api: &ApiClient,
    headers: &HeaderMap,
    id: &str,
) -> Result<AgentPage<'a>, ApiError> {
    let agent: Agent = api.get(&agent_path(id)?).await?;
    let assigned = ApiPath::new(&["api", "agents", id, "mcp-integrations"])?;
    let assigned: List<Integration> = api.get(&assigned).await?;
    let others = ApiPath::new(&["api", "agents", id, "mcp-integrations", "available"])?;
    let others: List<Integration> = api.get(&others).await?;
    let mut switches = Vec::new();
    for integration in assigned.items {
        switches.push(Switch { integration, is_on: true });
    }
    for integration in others.items {
        switches.push(Switch { integration, is_on: false });
    }
    switches.sort_by(|one, other| one.integration.name.cmp(&other.integration.name));
    let address = find_address(&agent.endpoint, headers);
    let needs_key = matches!(&layout.who, Some(who) if who.has_session);
    let snippets = make_snippets(&agent.name, &address, None, needs_key);
    Ok(AgentPage { layout, agent, address, switches, snippets, name: "", mistake: "" })
}

fn agent_path(id: &str) -> Result<ApiPath, ApiError> {
    ApiPath::new(&["api", "agents", id])
}

pub(crate) async fn rename_agent(
    layout: Layout,
    api: ApiClient,
    headers: HeaderMap,
    Path(id): Path<String>,
    FormFields(fields): FormFields,
) -> PageResult {
    let name = fields.get("name");
    let body = json!({"name": name});
    let renamed = api.change(Method::PATCH, &agent_path(&id)?, Some(&body), None).await;
    let error = match renamed {
        Ok(_) => {
            let page = ApiPath::new(&["console", "agents", &id])?;
            return Ok(layout.redirect_with(page, Severity::Good, "The name was changed."));
        }
        Err(error) if error.is_of_form() => error,
        Err(error) => return Err(error.into()),
    };
    let mistake = sentence(&error.detail);
    let page = load_page(&layout, &api, &headers, &id).await?;
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

/// Assigns an integration to an agent, or removes the assignment.
pub(crate) async fn switch_integration(
    api: ApiClient,
    Path((id, integration)): Path<(String, String)>,
    FormFields(fields): FormFields,
) -> PageResult {
    let method = if fields.get("on") == "yes" { Method::POST } else { Method::DELETE };
    let path = ApiPath::new(&["api", "agents", &id, "mcp-integrations", &integration])?;
    api.change(method, &path, None, None).await?;
    let page = ApiPath::new(&["console", "agents", &id])?;
    Ok(redirect(&format!("{}#switch-{integration}", page.as_str())))
}
