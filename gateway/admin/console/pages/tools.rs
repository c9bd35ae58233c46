//! Tools that the visitor may use.

use askama::Template;
use axum::Json;

use crate::api::page::Page;
use crate::api::problem::Problem;
use crate::api::query::query;
use crate::api::tools::{self, Tool};
use crate::console::api::Api;
use crate::console::error::{PageResult, show};
use crate::console::fields::QueryFields;
use crate::console::layout::Layout;
use crate::console::page_path::PagePath;

const PART: &str = "100";

#[derive(Template)]
#[template(path = "tools.html")]
struct ToolsPage<'a> {
    layout: &'a Layout,
    search: &'a str,
    /// The server to filter by; empty for all servers.
    server: &'a str,
    tools: Vec<Tool>,
    total: usize,
    next: Option<String>,
}

impl Tool {
    /// Returns the first line of the description.
    pub(crate) fn first_line(&self) -> &str {
        let description = self.description.as_deref().unwrap_or("");
        description.lines().next().unwrap_or("")
    }

    pub(crate) fn address(&self) -> String {
        PagePath::new(&["console", "tools", &self.name]).into_text()
    }
}

/// Number of tools shown on the page of their server.
const FIRST: &str = "12";

/// Returns the first tools of a server.
pub(crate) async fn load_tools_of(api: &Api, server: &str) -> Result<Vec<Tool>, Problem> {
    let filter = query(&[("limit", FIRST), ("server", server)])?;
    Ok(tools::list_tools(api.by()?, filter).await?.0.items)
}

pub(crate) async fn list_tools(
    layout: Layout,
    api: Api,
    QueryFields(fields): QueryFields,
) -> PageResult {
    let search = fields.get("q");
    let server = fields.get("server");
    let after = fields.get("after");
    let filter = [("limit", PART), ("search", search), ("server", server), ("cursor", after)];
    let Json(found) = tools::list_tools(api.by()?, query(&filter)?).await?;
    let next = PagePath::new(&["console", "tools"]).with("q", search).with("server", server);
    let next = next.after(found.next_cursor.as_deref());
    let Page { items: tools, total, .. } = found;
    show(&ToolsPage { layout: &layout, search, server, tools, total, next })
}
