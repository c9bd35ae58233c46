//! Accounts at servers: the visitor's own, to connect and disconnect, and for administrators those
//! of all users, to disconnect.

use askama::Template;
use axum::http::Method;
use serde::Deserialize;

use crate::console::api_client::{ApiClient, ApiPath, List};
use crate::console::diagnosis::Severity;
use crate::console::error::{PageResult, show};
use crate::console::fields::{FormFields, QueryFields};
use crate::console::layout::Layout;

const PART: &str = "200";

/// A connection as returned by the API.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Connection {
    id: String,
    server: String,
    state: String,
    issuer: String,
    subject: String,
    organization_id: String,
    connect_url: Option<String>,
    authorization_server: Option<String>,
    scopes: Vec<String>,
    connected_at: Option<String>,
    failure: Option<String>,
}

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
    api: ApiClient,
    QueryFields(fields): QueryFields,
) -> PageResult {
    let search = fields.get("q");
    let is_of_all = layout.is_admin() && fields.get("all") == "true";
    let all = if is_of_all { "true" } else { "" };
    let path = ApiPath::new(&["api", "connections"])?
        .with("limit", PART)
        .with("search", search)
        .with("all", all)
        .with("cursor", fields.get("after"));
    let found: List<Connection> = api.get(&path).await?;
    let mut next = None;
    if let Some(cursor) = &found.next_cursor {
        let page = ApiPath::new(&["console", "connections"])?;
        let page = page.with("q", search).with("all", all).with("after", cursor);
        next = Some(page.as_str().to_owned());
    }
    let connections = found.items;
    let total = found.total;
    show(&ConnectionsPage { layout: &layout, search, is_of_all, connections, total, next })
}

/// Disconnects an account; ignores one that is gone already.
pub(crate) async fn disconnect(
    layout: Layout,
    api: ApiClient,
    QueryFields(query): QueryFields,
    FormFields(form): FormFields,
) -> PageResult {
    let path = ApiPath::new(&["api", "connections", form.get("connection")])?;
    match api.change(Method::DELETE, &path, None, None).await {
        Err(error) if error.code != "CONNECTION_NOT_FOUND" => return Err(error.into()),
        _ => {}
    }
    let page = ApiPath::new(&["console", "connections"])?;
    let page = page.with("q", query.get("q")).with("all", query.get("all"));
    Ok(layout.redirect_with(page, Severity::Good, "Disconnected. Calls no longer use the account."))
}
