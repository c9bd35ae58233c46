//! Tools that a caller may use, under the names of `/mcp`, and calls of them: the same view and the
//! same decisions as for MCP clients.

use lockgate_protocol::method::Method;
use lockgate_proxy::VisibleItem;
use lockgate_text::json;
use lockgate_upstream::{ListKind, Upstream};
use serde_json::value::{RawValue, to_raw_value};

use super::answer::CallResult;
use super::call::{CallOrigin, Params, call, param};
use super::figures::{ToolMetrics, may_see_figures, rank_ms, rank_number};
use super::offers::take_text;
use super::operation::*;
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
#[cfg_attr(test, derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub(crate) struct ToolsQuery {
    /// Part of the name.
    #[cfg_attr(test, param(max_length = 256))]
    pub(crate) search: Option<String>,
    /// Only tools of this server.
    #[cfg_attr(test, param(max_length = 64))]
    pub(crate) server: Option<String>,
    /// Only tools of this category of built-in tools, such as `file`.
    #[cfg_attr(test, param(max_length = 64))]
    pub(crate) category: Option<String>,
    /// Default `name`.
    #[cfg_attr(test, param(inline))]
    pub(crate) sort: Option<ToolSort>,
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

impl Paged<ToolsQuery> {
    fn cut(self, all: Vec<SeenTool>) -> Result<Page<SeenTool>, Problem> {
        let sort = self.filter.sort.unwrap_or(ToolSort::Name);
        let descending = SortOrder::is_descending(self.filter.order);
        let order = (!matches!(sort, ToolSort::Name) || descending).then_some(descending);
        let search = self.filter.search.as_deref();
        self.part.cut_sorted(search, all, |one| &one.tool.exposed, order, |one| one.rank(sort))
    }
}

/// A tool that the caller may use, with the statistics that it may see.
pub(crate) struct SeenTool {
    tool: VisibleItem,
    metrics: Option<ToolMetrics>,
}

impl SeenTool {
    pub(crate) fn new(caller: &Caller, tool: VisibleItem) -> Self {
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
    #[cfg_attr(test, schema(value_type = Option<Object>))]
    arguments: Option<Box<RawValue>>,
}

/// The result of a tool: a `CallToolResult` of MCP.
#[cfg_attr(test, derive(utoipa::ToSchema), schema(as = ToolResult))]
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
        let Ok(Value::Object(mut definition)) = json::from_slice(&tool.text) else {
            return None;
        };
        let own = OwnWords::read(&*tool.server, definition.get("_meta"));
        Some(Self {
            name: tool.exposed.to_string(),
            server: tool.server.slug().to_owned(),
            version: own.version,
            tags: own.tags,
            permissions: own.permissions,
            title: take_text(&mut definition, "title"),
            description: take_text(&mut definition, "description"),
            input_schema: definition.remove("inputSchema").unwrap_or(Value::Null),
            output_schema: definition.remove("outputSchema"),
            annotations: definition.remove("annotations"),
            metrics,
        })
    }
}

async fn find_tool(state: &ApiState, caller: &Caller, name: &str) -> Result<SeenTool, Problem> {
    let mut visible =
        state.gateway.visible_items(&caller.principal, ListKind::Tools).await.into_iter();
    let detail = "there is no such tool: check its name in the list of tools";
    let found = visible.find(|tool| *tool.exposed == *name);
    let found = found.ok_or_else(|| Problem::not_found("TOOL_NOT_FOUND", detail))?;
    Ok(SeenTool::new(caller, found))
}

fn show(tool: SeenTool) -> Result<Json<Tool>, Problem> {
    let detail = "the definition of this tool cannot be read";
    Tool::new(tool).map(Json).ok_or_else(|| Problem::not_found("TOOL_NOT_FOUND", detail))
}

/// Lists the tools that the caller may use.
#[cfg_attr(test, utoipa::path(
    get, path = "/tools", tag = "tools", params(PartQuery, ToolsQuery, OrganisationQuery),
    responses((status = 200, body = Page<Tool>)),
))]
pub(crate) async fn list_tools(
    By { state, caller, .. }: By<User>,
    Query(query): Query<Paged<ToolsQuery>>,
) -> Result<Json<Page<Tool>>, Problem> {
    let mut all = Vec::new();
    let visible = state.gateway.visible_items(&caller.principal, ListKind::Tools).await;
    let category = query.filter.category.as_ref();
    let no_category = category.is_some_and(|one| is_category(&state, &caller, one) != Some(true));
    for tool in visible {
        let named = [&query.filter.server, &query.filter.category].into_iter().flatten();
        if no_category || named.into_iter().any(|slug| slug != tool.server.slug()) {
            continue;
        }
        all.push(SeenTool::new(&caller, tool));
    }
    Ok(Json(query.cut(all)?.filter_map(Tool::new)))
}

/// Returns a tool.
#[cfg_attr(test, utoipa::path(
    get, path = "/tools/{name}", tag = "tools", params(OrganisationQuery),
    responses((status = 200, body = Tool), (status = 404, description = "No such tool")),
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
    post, path = "/tools/{name}/metrics/reset", tag = "tools", params(OrganisationQuery),
    responses((status = 200, body = Tool), (status = 404, description = "No such tool")),
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
    post, path = "/tools/{name}/execute", tag = "tools", params(OrganisationQuery),
    request_body = Execution,
    responses(
        (status = 200, body = ToolResult), (status = 404, description = "No such tool"),
        (status = 502, description = "Its server failed"),
        (status = 504, description = "Its server did not answer in time"),
    ),
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

/// The transport of built-in servers.
const BUILTIN: &str = "builtin";

/// Aliases of arguments, each with the tool's own name.
type Spellings = &'static [(&'static str, &'static str)];

/// By the name of the tool.
const SPELLINGS: &[(&str, Spellings)] = &[
    ("file/list", &[("includeHidden", "hidden")]),
    ("shell/execute", &[("timeout", "timeout_ms")]),
    ("web/request", &[("timeout", "timeout_ms")]),
    ("web/fetch", &[("timeout", "timeout_ms")]),
    ("database/query", &[("query", "sql"), ("params", "parameters")]),
];

/// Returns the argument aliases of a built-in tool, by its name `category/name`.
pub(crate) fn find_spellings(tool: &str) -> Spellings {
    let found = SPELLINGS.iter().find(|(name, _)| *name == tool);
    found.map_or(&[], |(_, spellings)| *spellings)
}

/// The gateway's metadata of its own tools, beside MCP.
#[derive(Default, Deserialize)]
pub(crate) struct OwnWords {
    #[serde(rename = "lockgate/version")]
    pub(crate) version: Option<String>,
    #[serde(default, rename = "lockgate/tags")]
    pub(crate) tags: Vec<String>,
    #[serde(default, rename = "lockgate/permissions")]
    pub(crate) permissions: Vec<String>,
}

impl OwnWords {
    /// Reads the metadata of a built-in tool. Other servers could write anything there.
    pub(crate) fn read(server: &dyn Upstream, meta: Option<&Value>) -> Self {
        let status = server.status();
        match (&status.peer, meta) {
            (Some(peer), Some(meta)) if peer.transport == BUILTIN => {
                Self::deserialize(meta).unwrap_or_default()
            }
            _ => Self::default(),
        }
    }
}

/// Returns whether the visible server of this name is a built-in server, which has the name of its
/// category. `None` if the caller sees no server of this name.
pub(crate) fn is_category(state: &ApiState, caller: &Caller, category: &str) -> Option<bool> {
    let servers = state.gateway.visible_servers(&caller.principal);
    let server = servers.iter().find(|server| server.slug() == category)?;
    let status = server.status();
    // The transport is unknown until the server has connected.
    let is_builtin = status.peer.as_ref().is_none_or(|peer| peer.transport == BUILTIN);
    Some(is_builtin && server.organisation().is_none())
}

/// Renames aliases of built-in tools' arguments, as in tRPC's procedures, to the tools' own names,
/// which policies refer to.
pub(crate) fn rename_arguments(
    state: &ApiState,
    caller: &Caller,
    name: &str,
    given: Box<RawValue>,
) -> Result<Box<RawValue>, Problem> {
    let gateway = &state.gateway;
    let Some((server, own)) = gateway.find_target(&caller.principal, Method::ToolsCall, name)
    else {
        return Ok(given);
    };
    let is_builtin = server.status().peer.as_ref().is_some_and(|peer| peer.transport == BUILTIN);
    let names = find_spellings(&format!("{}/{own}", server.slug()));
    if !is_builtin || names.is_empty() {
        return Ok(given);
    }
    let Ok(mut arguments) = json::from_str::<Params>(given.get()) else { return Ok(given) };
    for (spelling, own) in names {
        let Some(value) = arguments.remove(*spelling) else { continue };
        if arguments.insert((*own).to_owned(), value).is_some() {
            let detail = format!("is another spelling of `{own}`: send only one of them");
            return Err(Problem::in_body(&format!("/arguments/{spelling}"), detail));
        }
    }
    to_raw_value(&arguments).or_else(|_| Ok(given))
}
