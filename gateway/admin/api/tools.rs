//! Tools that a caller may use, under the names of `/mcp`, and calls of them: the same view and the
//! same decisions as for MCP clients.

use axum::Json;
use axum::extract::Path;
use lockgate_protocol::method::Method;
use lockgate_proxy::VisibleTool;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::access::{Admin, By, Caller, User};
use super::body::Body;
use super::builtin_tools::{OwnWords, is_category, rename_arguments};
use super::call::{CallOrigin, CallResult, Params, call, param};
#[cfg(test)]
use super::conditions::OrganisationQuery;
use super::figures::{ToolMetrics, may_see_figures, rank_ms, rank_number};
use super::page::{Page, PageQuery, SortOrder, Sorting, find_named};
use super::problem::Problem;
use super::query::{Query, number};
use super::recorded::{ChangeRecord, make_recorded};
use super::state::ApiState;
use super::switch::require_control;

/// A tool.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub(crate) struct Tool {
    /// Its name in calls.
    pub(crate) name: String,
    /// Its server.
    pub(crate) server: String,
    /// For built-in tools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) version: Option<String>,
    /// For built-in tools.
    pub(crate) tags: Vec<String>,
    /// The permissions that it requires, such as `file:write`; for built-in tools.
    pub(crate) permissions: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) title: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) description: Option<String>,
    /// The JSON Schema of its arguments.
    #[cfg_attr(test, schema(value_type = Object))]
    pub(crate) input_schema: Value,
    /// The JSON Schema of its structured results.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schema(value_type = Option<Object>))]
    pub(crate) output_schema: Option<Value>,
    /// The annotations of its server, which are not verified.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schema(value_type = Option<Object>))]
    pub(crate) annotations: Option<Value>,
    /// Outcomes of its calls, for operators and for members of its server's organisation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) metrics: Option<ToolMetrics>,
}

#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(utoipa::IntoParams))]
#[serde(deny_unknown_fields)]
#[cfg_attr(test, into_params(parameter_in = Query))]
pub(crate) struct ToolsQuery {
    /// The maximum number of items per page.
    #[serde(default, deserialize_with = "number")]
    #[cfg_attr(test, param(minimum = 1, maximum = 200))]
    pub(crate) limit: Option<usize>,
    /// The start of the page: `nextCursor` of the previous page.
    #[serde(default)]
    #[cfg_attr(test, param(max_length = 1024))]
    pub(crate) cursor: Option<String>,
    /// Part of the name.
    #[serde(default)]
    #[cfg_attr(test, param(max_length = 256))]
    pub(crate) search: Option<String>,
    /// Only tools of this server.
    #[serde(default)]
    #[cfg_attr(test, param(max_length = 64))]
    pub(crate) server: Option<String>,
    /// Only tools of this category of built-in tools, such as `file`.
    #[serde(default)]
    #[cfg_attr(test, param(max_length = 64))]
    pub(crate) category: Option<String>,
    /// Default `name`.
    #[serde(default)]
    #[cfg_attr(test, param(inline))]
    pub(crate) sort: Option<ToolSort>,
    #[serde(default)]
    #[cfg_attr(test, param(inline))]
    pub(crate) order: Option<SortOrder>,
}

/// The sort key of tools.
#[derive(Clone, Copy, Debug, Deserialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub(crate) enum ToolSort {
    Name,
    Server,
    Invocations,
    Failures,
    Average,
    P95,
    LastInvoked,
}

impl ToolsQuery {
    fn cut(self, all: Vec<SeenTool>) -> Result<Page<SeenTool>, Problem> {
        let sort = self.sort.unwrap_or(ToolSort::Name);
        let descending = SortOrder::is_descending(self.order);
        let sorting =
            Sorting { rank: Box::new(move |tool: &SeenTool| tool.rank(sort)), descending };
        let page = PageQuery { limit: self.limit, cursor: self.cursor, search: self.search };
        let is_plain = matches!(sort, ToolSort::Name) && !descending;
        let sorting = if is_plain { None } else { Some(&sorting) };
        page.cut_sorted(all, |tool| &tool.tool.exposed, sorting)
    }
}

/// A tool that the caller may use, with the statistics that it may see.
pub(crate) struct SeenTool {
    tool: VisibleTool,
    metrics: Option<ToolMetrics>,
}

impl SeenTool {
    pub(crate) fn new(caller: &Caller, tool: VisibleTool) -> Self {
        let metrics = match &tool.metrics {
            Some(metrics) if may_see_figures(caller, &*tool.server) => metrics.figures(),
            _ => None,
        };
        Self { tool, metrics: metrics.map(ToolMetrics::from) }
    }

    /// Returns the rank for a sort order. It is empty for statistics that the caller may not see.
    fn rank(&self, sort: ToolSort) -> String {
        match (sort, &self.metrics) {
            (ToolSort::Name, _) => self.tool.exposed.to_string(),
            (ToolSort::Server, _) => self.tool.server.slug().to_owned(),
            (_, None) => String::new(),
            (ToolSort::Invocations, Some(metrics)) => rank_number(metrics.invocations),
            (ToolSort::Failures, Some(metrics)) => rank_number(metrics.failures),
            (ToolSort::Average, Some(metrics)) => rank_ms(metrics.average_ms),
            (ToolSort::P95, Some(metrics)) => rank_ms(metrics.p95_ms),
            (ToolSort::LastInvoked, Some(metrics)) => {
                metrics.last_invoked_at.as_deref().unwrap_or("").to_owned()
            }
        }
    }
}

/// A call of a tool.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Execution {
    /// Its arguments by `inputSchema`. Default: an empty object.
    #[serde(default)]
    #[cfg_attr(test, schema(value_type = Option<Object>))]
    arguments: Option<Box<RawValue>>,
}

/// The result of a tool: a `CallToolResult` of MCP.
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[cfg_attr(test, schema(as = ToolResult))]
#[allow(dead_code, reason = "describes what is passed on as it came")]
pub(crate) struct ToolResult {
    /// Texts, images and resources.
    #[cfg_attr(test, schema(value_type = Vec<Object>))]
    content: Vec<Value>,
    /// The result for programs, by `outputSchema`.
    #[cfg_attr(test, schema(value_type = Option<Object>, rename = "structuredContent"))]
    structured_content: Option<Value>,
    /// The tool failed, or a policy refused the arguments; `content` contains the reason.
    #[cfg_attr(test, schema(rename = "isError"))]
    is_error: Option<bool>,
}

impl Tool {
    /// Returns `None` if the definition cannot be parsed.
    pub(crate) fn new(seen: SeenTool) -> Option<Self> {
        let SeenTool { tool, metrics } = seen;
        let Ok(Value::Object(mut definition)) = serde_json::from_slice(&tool.text) else {
            return None;
        };
        let own = OwnWords::read(&*tool.server, definition.get("_meta"));
        Some(Self {
            name: tool.exposed.to_string(),
            server: tool.server.slug().to_owned(),
            version: own.version,
            tags: own.tags,
            permissions: own.permissions,
            title: read_text(definition.remove("title")),
            description: read_text(definition.remove("description")),
            input_schema: definition.remove("inputSchema").unwrap_or(Value::Null),
            output_schema: definition.remove("outputSchema"),
            annotations: definition.remove("annotations"),
            metrics,
        })
    }
}

fn read_text(value: Option<Value>) -> Option<String> {
    match value {
        Some(Value::String(text)) => Some(text),
        _ => None,
    }
}

async fn find_tool(state: &ApiState, caller: &Caller, name: &str) -> Result<SeenTool, Problem> {
    let visible = state.gateway.visible_tools(&caller.principal).await;
    let detail = "there is no such tool; GET /api/tools lists them";
    let found = find_named(visible, name, |tool| &tool.exposed, ("TOOL_NOT_FOUND", detail))?;
    Ok(SeenTool::new(caller, found))
}

fn show(tool: SeenTool) -> Result<Json<Tool>, Problem> {
    let detail = "the definition of this tool cannot be read";
    match Tool::new(tool) {
        Some(tool) => Ok(Json(tool)),
        None => Err(Problem::not_found("TOOL_NOT_FOUND", detail)),
    }
}

/// Lists the tools that the caller may use.
#[cfg_attr(test, utoipa::path(
    get,
    path = "/tools",
    tag = "tools",
    params(ToolsQuery, OrganisationQuery),
    responses((status = 200, body = Page<Tool>))
))]
pub(crate) async fn list_tools(
    By { state, caller, .. }: By<User>,
    Query(query): Query<ToolsQuery>,
) -> Result<Json<Page<Tool>>, Problem> {
    let mut all = Vec::new();
    let visible = state.gateway.visible_tools(&caller.principal).await;
    let no_category = match &query.category {
        Some(category) => is_category(&state, &caller, category) != Some(true),
        None => false,
    };
    for tool in visible {
        let named = [&query.server, &query.category].into_iter().flatten();
        if no_category || named.into_iter().any(|slug| slug != tool.server.slug()) {
            continue;
        }
        all.push(SeenTool::new(&caller, tool));
    }
    let page = query.cut(all)?;
    let mut items = Vec::with_capacity(page.items.len());
    for tool in page.items {
        items.extend(Tool::new(tool));
    }
    Ok(Json(Page { items, total: page.total, next_cursor: page.next_cursor }))
}

/// Returns a tool.
#[cfg_attr(test, utoipa::path(
    get,
    path = "/tools/{name}",
    tag = "tools",
    params(("name" = String, Path), OrganisationQuery),
    responses((status = 200, body = Tool), (status = 404, description = "No such tool"))
))]
pub(crate) async fn show_tool(
    By { state, caller, .. }: By<User>,
    Path(name): Path<String>,
) -> Result<Json<Tool>, Problem> {
    show(find_tool(&state, &caller, &name).await?)
}

/// Resets the call metrics of a tool.
///
/// The values exported by `/metrics` are not affected.
#[cfg_attr(test, utoipa::path(
    post,
    path = "/tools/{name}/metrics/reset",
    tag = "tools",
    params(("name" = String, Path), OrganisationQuery),
    responses((status = 200, body = Tool), (status = 404, description = "No such tool"))
))]
pub(crate) async fn reset_metrics(
    By { state, caller, .. }: By<Admin>,
    Path(name): Path<String>,
) -> Result<Json<Tool>, Problem> {
    let found = find_tool(&state, &caller, &name).await?;
    require_control(&caller, &*found.tool.server)?;
    let metrics = found.tool.metrics.clone();
    let before = json!({"tool": name, "metrics": found.metrics});
    let record = ChangeRecord {
        action: "reset tool metrics",
        organisation: found.tool.server.organisation().map(ToString::to_string),
        before: Some(before.to_string()),
        after: Some(json!({"tool": name}).to_string()),
    };
    make_recorded(&state, &caller.principal, async move {
        if let Some(metrics) = metrics {
            metrics.reset();
        }
        Ok(((), Some(record)))
    })
    .await?;
    show(SeenTool::new(&caller, found.tool))
}

/// Calls a tool.
///
/// A result with `isError` is a response of the tool, and has status 200.
#[cfg_attr(test, utoipa::path(
    post,
    path = "/tools/{name}/execute",
    tag = "tools",
    params(("name" = String, Path), OrganisationQuery),
    request_body = Execution,
    responses(
        (status = 200, body = ToolResult),
        (status = 404, description = "No such tool"),
        (status = 502, description = "Its server failed"),
        (status = 504, description = "Its server did not answer in time"),
    )
))]
pub(crate) async fn execute_tool(
    By { state, caller, .. }: By<User>,
    Path(name): Path<String>,
    origin: CallOrigin,
    Body(execution): Body<Execution>,
) -> Result<CallResult, Problem> {
    let mut params = Params::new();
    let arguments = match execution.arguments {
        Some(given) if !given.get().starts_with('{') => {
            return Err(Problem::in_body("/arguments", "must be an object"));
        }
        Some(given) => rename_arguments(&state, &caller, &name, given)?,
        None => param(&json!({}))?,
    };
    params.insert("name".to_owned(), param(&Value::String(name))?);
    params.insert("arguments".to_owned(), arguments);
    call(&state, &caller, &origin, Method::ToolsCall, params).await
}
