//! Accounts at servers: the visitor's own, to connect and disconnect, and for administrators those
//! of all users, to disconnect.

use askama::Template;
use axum::Json;
use axum::extract::Path;

use crate::api::connections::{self, Connection};
use crate::api::page::Page;
use crate::api::query::query;
use crate::console::api::Api;
use crate::console::diagnosis::Severity;
use crate::console::error::{PageResult, show};
use crate::console::fields::{FormFields, QueryFields};
use crate::console::layout::Layout;
use crate::console::redirect::PagePath;

const PART: &str = "200";

#[derive(Template)]
#[template(path = "connections.html")]
struct ConnectionsPage<'a> {
    layout: &'a Layout,
    search: &'a str,
    is_of_all: bool,
    connections: Vec<Connection>,
    total: usize,
    next: Option<String>,
}

impl Connection {
    fn severity(&self) -> Severity {
        if self.state == "connected" { Severity::Good } else { Severity::Waiting }
    }

    fn words(&self) -> &str {
        match self.state.as_str() {
            "connected" => "connected",
            "needs_scope" => "needs more permissions",
            _ => "not connected",
        }
    }

    fn link_text(&self) -> &'static str {
        if self.state == "connected" { "Connect again" } else { "Connect" }
    }

    /// Returns whether there is a grant that can be disconnected.
    fn is_stored(&self) -> bool {
        self.connected_at.is_some() || self.failure.is_some()
    }

    fn user(&self) -> String {
        format!("{} {}", self.issuer, self.subject)
    }
}

/// Lists the visitor's connections; with `all`, those of all users.
pub(crate) async fn list_connections(
    layout: Layout,
    api: Api,
    QueryFields(fields): QueryFields,
) -> PageResult {
    let search = fields.get("q");
    let is_of_all = layout.is_admin() && fields.get("all") == "true";
    let all = if is_of_all { "true" } else { "" };
    let filter =
        [("limit", PART), ("search", search), ("all", all), ("cursor", fields.get("after"))];
    let Json(found) = connections::list_connections(api.by()?, query(&filter)?).await?;
    let next = PagePath::new(&["console", "connections"]).with("q", search).with("all", all);
    let next = next.after(found.next_cursor.as_deref());
    let Page { items: connections, total, .. } = found;
    show(&ConnectionsPage { layout: &layout, search, is_of_all, connections, total, next })
}

/// Disconnects an account; ignores one that is gone already.
pub(crate) async fn disconnect(
    layout: Layout,
    api: Api,
    QueryFields(query): QueryFields,
    FormFields(form): FormFields,
) -> PageResult {
    let id = form.get("connection").to_owned();
    match connections::delete_connection(api.by()?, Path(id)).await {
        Err(problem) if problem.code() != "CONNECTION_NOT_FOUND" => return Err(problem.into()),
        _ => {}
    }
    let page = PagePath::new(&["console", "connections"]);
    let page = page.with("q", query.get("q")).with("all", query.get("all"));
    Ok(layout.redirect_with(page, Severity::Good, "Disconnected. Calls no longer use the account."))
}
