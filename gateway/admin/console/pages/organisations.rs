//! Organisations with their own servers or agents.

use askama::Template;
use serde::Deserialize;

use crate::console::api_client::{ApiClient, ApiPath, List};
use crate::console::error::{PageResult, show};
use crate::console::fields::QueryFields;
use crate::console::layout::Layout;

/// An organisation as returned by the API.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Organisation {
    id: String,
    integrations: usize,
    agents: usize,
    created_at: String,
}

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
    api: ApiClient,
    QueryFields(fields): QueryFields,
) -> PageResult {
    let search = fields.get("q");
    let path = ApiPath::new(&["api", "organisations"])?
        .with("limit", "100")
        .with("search", search)
        .with("cursor", fields.get("after"));
    let found: List<Organisation> = api.get(&path).await?;
    let mut next = None;
    if let Some(cursor) = &found.next_cursor {
        let page = ApiPath::new(&["console", "organisations"])?;
        next = Some(page.with("q", search).with("after", cursor).as_str().to_owned());
    }
    let List { items: organisations, total, .. } = found;
    show(&OrganisationsPage { layout: &layout, search, organisations, total, next })
}
