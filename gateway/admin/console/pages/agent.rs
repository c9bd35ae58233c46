//! One agent: the integrations that it has and could have, a switch for each, and the address that
//! its client connects to.

use askama::Template;
use axum::extract::Path;
use axum::http::{HeaderMap, Method};
use serde_json::json;

use super::agents::Agent;
use super::integration::Integration;
use crate::console::api_client::{ApiClient, ApiPath, List};
use crate::console::error::{PageResult, show};
use crate::console::fields::FormFields;
use crate::console::layout::Layout;
use crate::console::redirect::redirect;
use crate::console::visitor::is_on_https;

/// One line of the card: an integration, and whether the agent has it.
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
}

impl AgentPage<'_> {
    /// What the configuration of an editor has to have.
    fn client_configuration(&self) -> String {
        let name = self.agent.name.to_lowercase().replace(char::is_whitespace, "-");
        let servers = json!({"mcpServers": {name: {"url": self.address}}});
        serde_json::to_string_pretty(&servers).unwrap_or_default()
    }
}

/// One agent: its card.
pub(crate) async fn show_agent(
    layout: Layout,
    api: ApiClient,
    headers: HeaderMap,
    Path(id): Path<String>,
) -> PageResult {
    let agent: Agent = api.get(&ApiPath::new(&["api", "agents", &id])?).await?;
    let assigned = ApiPath::new(&["api", "agents", &id, "mcp-integrations"])?;
    let assigned: List<Integration> = api.get(&assigned).await?;
    let others = ApiPath::new(&["api", "agents", &id, "mcp-integrations", "available"])?;
    let others: List<Integration> = api.get(&others).await?;
    let mut switches = Vec::new();
    for integration in assigned.items {
        switches.push(Switch { integration, is_on: true });
    }
    for integration in others.items {
        switches.push(Switch { integration, is_on: false });
    }
    switches.sort_by(|one, other| one.integration.name.cmp(&other.integration.name));
    // A proxy in front may be what has TLS.
    let address = match (is_on_https(&headers), agent.endpoint.strip_prefix("http://")) {
        (true, Some(rest)) => format!("https://{rest}"),
        _ => agent.endpoint.clone(),
    };
    show(&AgentPage { layout: &layout, agent, address, switches })
}

/// Assigns an integration to an agent, or takes it away.
pub(crate) async fn switch_integration(
    api: ApiClient,
    Path((id, integration)): Path<(String, String)>,
    FormFields(fields): FormFields,
) -> PageResult {
    let method = if fields.get("on") == "yes" { Method::POST } else { Method::DELETE };
    let path = ApiPath::new(&["api", "agents", &id, "mcp-integrations", &integration])?;
    api.change(method, &path, None, None).await?;
    let page = ApiPath::new(&["console", "agents", &id])?;
    Ok(redirect(page.as_str()))
}
