//! Organisations with their own servers or agents, and a page of each.

use askama::Template;
use axum::Json;
use axum::extract::Path;

use crate::api::agents::{Agent, list_agents};
use crate::api::integrations::{Integration, list_integrations};
use crate::api::organisations::{self, Organisation};
use crate::api::page::Page;
use crate::api::query::query;
use crate::console::api::Api;
use crate::console::diagnosis::Severity;
use crate::console::error::{PageResult, show};
use crate::console::fields::QueryFields;
use crate::console::layout::Layout;
use crate::console::page_path::PagePath;

#[derive(Template)]
#[template(path = "organisations.html")]
struct OrganisationsPage<'a> {
    layout: &'a Layout,
    search: &'a str,
    organisations: Vec<Organisation>,
    total: usize,
    next: Option<String>,
}

pub(crate) async fn list_organisations(
    layout: Layout,
    api: Api,
    QueryFields(fields): QueryFields,
) -> PageResult {
    let search = fields.get("q");
    let filter = [("limit", "100"), ("search", search), ("cursor", fields.get("after"))];
    let Json(found) = organisations::list_organisations(api.by()?, query(&filter)?).await?;
    let next = PagePath::new(&["console", "organisations"]).with("q", search);
    let next = next.after(found.next_cursor.as_deref());
    let Page { items: organisations, total, .. } = found;
    show(&OrganisationsPage { layout: &layout, search, organisations, total, next })
}

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
