//! Organisations with their own servers or agents.

use askama::Template;
use axum::Json;

use crate::api::organisations::{self, Organisation};
use crate::api::page::Page;
use crate::api::query::query;
use crate::console::api::Api;
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
