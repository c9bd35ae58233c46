//! An organisation, for operators: its servers and agents.

use askama::Template;
use axum::extract::Path;

use super::agents::Agent;
use super::integration::Integration;
use crate::console::api_client::{ApiClient, ApiPath, List};
use crate::console::diagnosis::Severity;
use crate::console::error::{PageResult, show};
use crate::console::layout::Layout;

/// Maximum number of servers, and of agents, shown.
const PART: &str = "200";

#[derive(Template)]
#[template(path = "organisation.html")]
struct OrganisationPage<'a> {
    layout: &'a Layout,
    name: &'a str,
    integrations: List<Integration>,
    agents: List<Agent>,
}

/// Shows an organisation. An unknown name is shown as an empty organisation, because its first
/// server creates it.
pub(crate) async fn show_organisation(
    layout: Layout,
    api: ApiClient,
    Path(name): Path<String>,
) -> PageResult {
    let integrations = ApiPath::new(&["api", "mcp-integrations"])?;
    let integrations = integrations.with("limit", PART).with("organizationId", &name);
    let agents = ApiPath::new(&["api", "agents"])?;
    let agents = agents.with("limit", PART).with("organizationId", &name);
    show(&OrganisationPage {
        layout: &layout,
        name: &name,
        integrations: api.get(&integrations).await?,
        agents: api.get(&agents).await?,
    })
}
