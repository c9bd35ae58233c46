//! An organisation, for operators: its servers and agents.

use askama::Template;
use axum::extract::Path;

use crate::api::agents::{Agent, list_agents};
use crate::api::integrations::{Integration, list_integrations};
use crate::api::page::Page;
use crate::api::query::query;
use crate::console::api::Api;
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
    integrations: Page<Integration>,
    agents: Page<Agent>,
}

/// Shows an organisation. An unknown name is shown as an empty organisation, because its first
/// server creates it.
pub(crate) async fn show_organisation(
    layout: Layout,
    api: Api,
    Path(name): Path<String>,
) -> PageResult {
    let filter = [("limit", PART)];
    let integrations = list_integrations(api.by_in(&name).await?, query(&filter)?).await?.0;
    let agents = list_agents(api.by_in(&name).await?, query(&filter)?).await?.0;
    show(&OrganisationPage { layout: &layout, name: &name, integrations, agents })
}
