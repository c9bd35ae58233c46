//! Tools as a caller may use them, under the names of `/mcp`, and calls of them: the same view, and
//! the same decision, as for clients of MCP.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use lockgate_protocol::method::Method;
use lockgate_upstream::VisibleItem;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::access::Caller;
use super::body::Body;
use super::call::{CallResult, Params, call, param};
use super::page::{Page, PageQuery};
use super::problem::Problem;
use super::query::Query;
use super::state::Shared;

/// A tool.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Tool {
    /// What it is called by.
    name: String,
    /// The server that has it.
    server: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    /// The JSON Schema of its arguments.
    #[schema(value_type = Object)]
    input_schema: Value,
    /// The JSON Schema of its structured results.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    output_schema: Option<Value>,
    /// What its server says of it: nothing that anybody has checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    annotations: Option<Value>,
}

/// A call of a tool.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Execution {
    /// What its `inputSchema` describes; none is an empty object.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    arguments: Option<Box<RawValue>>,
}

/// What a tool gave: a `CallToolResult` of MCP.
#[derive(ToSchema)]
#[schema(as = ToolResult)]
#[allow(dead_code, reason = "describes what is passed on as it came")]
pub(crate) struct ToolResult {
    /// Texts, images and resources for a reader.
    #[schema(value_type = Vec<Object>)]
    content: Vec<Value>,
    /// The result for programs, as `outputSchema` describes it.
    #[schema(value_type = Option<Object>, rename = "structuredContent")]
    structured_content: Option<Value>,
    /// The tool failed, or a policy refused the arguments: `content` says why.
    #[schema(rename = "isError")]
    is_error: Option<bool>,
}

impl Tool {
    /// `None` for a definition that cannot be read.
    fn new(item: &VisibleItem) -> Option<Self> {
        let Ok(Value::Object(mut definition)) = serde_json::from_slice(&item.text) else {
            return None;
        };
        Some(Self {
            name: item.exposed.to_string(),
            server: item.slug.to_string(),
            title: read_text(definition.remove("title")),
            description: read_text(definition.remove("description")),
            input_schema: definition.remove("inputSchema").unwrap_or_default(),
            output_schema: definition.remove("outputSchema"),
            annotations: definition.remove("annotations"),
        })
    }
}

fn read_text(value: Option<Value>) -> Option<String> {
    match value {
        Some(Value::String(text)) => Some(text),
        _ => None,
    }
}

/// The tools that the caller may use.
#[utoipa::path(
    get,
    path = "/tools",
    tag = "tools",
    params(PageQuery),
    responses((status = 200, body = Page<Tool>))
)]
pub(crate) async fn list_tools(
    State(state): Shared,
    caller: Caller,
    Query(query): Query<PageQuery>,
) -> Result<Json<Page<Tool>>, Problem> {
    let visible = state.gateway.visible_tools(&caller.principal).await;
    let Page { items, total, next_cursor } = query.cut(visible, |item| &item.exposed)?;
    let items = items.iter().filter_map(Tool::new).collect();
    Ok(Json(Page { items, total, next_cursor }))
}

/// One tool.
#[utoipa::path(
    get,
    path = "/tools/{name}",
    tag = "tools",
    params(("name" = String, Path)),
    responses((status = 200, body = Tool), (status = 404, description = "No such tool"))
)]
pub(crate) async fn show_tool(
    State(state): Shared,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<Json<Tool>, Problem> {
    let visible = state.gateway.visible_tools(&caller.principal).await;
    let found = visible.iter().find(|item| *item.exposed == *name);
    match found.and_then(Tool::new) {
        Some(tool) => Ok(Json(tool)),
        None => {
            let detail = "there is no such tool; GET /api/tools lists them";
            Err(Problem::not_found("TOOL_NOT_FOUND", detail))
        }
    }
}

/// Calls a tool.
///
/// A result with `isError` is an answer of the tool, and has status 200.
#[utoipa::path(
    post,
    path = "/tools/{name}/execute",
    tag = "tools",
    params(("name" = String, Path)),
    request_body = Execution,
    responses(
        (status = 200, body = ToolResult),
        (status = 404, description = "No such tool"),
        (status = 502, description = "Its server failed"),
        (status = 504, description = "Its server did not answer in time"),
    )
)]
pub(crate) async fn execute_tool(
    State(state): Shared,
    caller: Caller,
    Path(name): Path<String>,
    headers: HeaderMap,
    Body(execution): Body<Execution>,
) -> Result<CallResult, Problem> {
    let mut params = Params::new();
    params.insert("name".to_owned(), param(&Value::String(name))?);
    let arguments = match execution.arguments {
        Some(given) if !given.get().starts_with('{') => {
            return Err(Problem::in_body("/arguments", "must be an object"));
        }
        Some(given) => given,
        None => param(&serde_json::json!({}))?,
    };
    params.insert("arguments".to_owned(), arguments);
    call(&state, &caller, &headers, Method::ToolsCall, params).await
}
