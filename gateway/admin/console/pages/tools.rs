//! Tools that the visitor may use.

use askama::Template;
use serde::Deserialize;

use crate::console::api_client::{ApiClient, ApiError, ApiPath, List};
use crate::console::error::{PageResult, show};
use crate::console::fields::QueryFields;
use crate::console::layout::Layout;

const PART: &str = "100";

/// A tool as returned by the API.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ToolSummary {
    pub(crate) name: String,
    pub(crate) server: String,
    pub(crate) title: Option<String>,
    pub(crate) description: Option<String>,
}

#[derive(Template)]
#[template(path = "tools.html")]
struct ToolsPage<'a> {
    layout: &'a Layout,
    search: &'a str,
    /// The server to filter by; empty for all servers.
    server: &'a str,
    tools: Vec<ToolSummary>,
    total: usize,
    next: Option<String>,
}

impl ToolSummary {
    /// Returns the first line of the description.
    pub(crate) fn first_line(&self) -> &str {
        let description = self.description.as_deref().unwrap_or("");
        description.lines().next().unwrap_or("")
    }

    pub(crate) fn address(&self) -> String {
        ApiPath::link(&["console", "tools", &self.name], "", "/console/tools")
    }
}

/// Number of tools shown on the page of their server.
const FIRST: &str = "12";

/// Returns the first tools of a server.
pub(crate) async fn load_tools_of(
    api: &ApiClient,
    server: &str,
) -> Result<Vec<ToolSummary>, ApiError> {
    let path = ApiPath::new(&["api", "tools"])?.with("limit", FIRST).with("server", server);
    let found: List<ToolSummary> = api.get(&path).await?;
    Ok(found.items)
}

pub(crate) async fn list_tools(
    layout: Layout,
    api: ApiClient,
    QueryFields(fields): QueryFields,
) -> PageResult {
    let search = fields.get("q");
    let server = fields.get("server");
    let path = ApiPath::new(&["api", "tools"])?
        .with("limit", PART)
        .with("search", search)
        .with("server", server)
        .with("cursor", fields.get("after"));
    let found: List<ToolSummary> = api.get(&path).await?;
    let mut next = None;
    if let Some(cursor) = &found.next_cursor {
        let page = ApiPath::new(&["console", "tools"])?.with("q", search).with("server", server);
        next = Some(page.with("after", cursor).as_str().to_owned());
    }
    let List { items: tools, total, .. } = found;
    show(&ToolsPage { layout: &layout, search, server, tools, total, next })
}
