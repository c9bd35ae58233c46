//! Tools, prompts and resources that a caller may use, under the names of `/mcp`, and calls of
//! tools: the same view and the same decisions as for MCP clients.

use lockgate_protocol::method::Method;
use lockgate_proxy::VisibleItem;
use lockgate_text::json;
use lockgate_upstream::{ListKind, Upstream};
use serde_json::Map;
use serde_json::value::{RawValue, to_raw_value};

use super::answer::CallResult;
use super::call::{CallOrigin, Params, call, param};
use super::figures::{ToolMetrics, may_see_figures, rank_ms, rank_number};
use super::operation::*;
use super::servers::require_control;

types! {
/// A tool.
output pub(crate) struct Tool {
    /// Its name in calls.
    pub(crate) name: String,
    /// Its server.
    pub(crate) server: String,
    /// For built-in tools.
    pub(crate) version: Option<String>,
    /// For built-in tools.
    pub(crate) tags: Vec<String>,
    /// The permissions that it requires, such as `file:write`; for built-in tools.
    pub(crate) permissions: Vec<String>,
    pub(crate) title: Option<String>,
    pub(crate) description: Option<String>,
    /// The JSON Schema of its arguments.
    #[cfg_attr(test, schema(value_type = Object))]
    pub(crate) input_schema: Value,
    /// The JSON Schema of its structured results.
    #[cfg_attr(test, schema(value_type = Option<Object>))]
    pub(crate) output_schema: Option<Value>,
    /// The annotations of its server, which are not verified.
    #[cfg_attr(test, schema(value_type = Option<Object>))]
    pub(crate) annotations: Option<Value>,
    /// Outcomes of its calls, for operators and for members of its server's organisation.
    pub(crate) metrics: Option<ToolMetrics>,
}

filter pub(crate) struct ToolsQuery {
    /// Part of the name.
    pub(crate) search: Option<String> max 256,
    /// Only tools of this server.
    pub(crate) server: Option<String> max 64,
    /// Only tools of this category of built-in tools, such as `file`.
    pub(crate) category: Option<String> max 64,
    /// Default `name`.
    pub(crate) sort: Option<ToolSort>,
    pub(crate) order: Option<SortOrder>,
}

/// The sort key of tools.
choice pub(crate) enum ToolSort {
    Name,
    Server,
    Invocations,
    Failures,
    Average,
    P95,
    LastInvoked,
}
}

/// Returns the rank of a tool for a sort order other than by name. It is empty for statistics that
/// the caller may not see.
fn rank(caller: &Caller, tool: &VisibleItem, sort: ToolSort) -> Option<String> {
    Some(match (sort, find_metrics(caller, tool)) {
        (ToolSort::Name, _) => return None,
        (ToolSort::Server, _) => tool.server.slug().to_owned(),
        (_, None) => String::new(),
        (ToolSort::Invocations, Some(metrics)) => rank_number(metrics.invocations),
        (ToolSort::Failures, Some(metrics)) => rank_number(metrics.failures),
        (ToolSort::Average, Some(metrics)) => rank_ms(metrics.average_ms),
        (ToolSort::P95, Some(metrics)) => rank_ms(metrics.p95_ms),
        (ToolSort::LastInvoked, Some(metrics)) => metrics.last_invoked_at.unwrap_or_default(),
    })
}

/// Returns the statistics of a tool that the caller may see.
fn find_metrics(caller: &Caller, tool: &VisibleItem) -> Option<ToolMetrics> {
    let metrics = tool.metrics.as_ref()?;
    if may_see_figures(caller, &*tool.server) { metrics.figures().map(Into::into) } else { None }
}

types! {
/// A call of a tool.
input pub(crate) struct Execution {
    /// Its arguments by `inputSchema`. Default: an empty object.
    #[cfg_attr(test, schema(value_type = Option<Object>))]
    arguments: Option<Box<RawValue>>,
}
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
    fn new(caller: &Caller, tool: &VisibleItem) -> Option<Self> {
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
            metrics: find_metrics(caller, tool),
        })
    }
}

async fn find_tool(by: &Context, name: &str) -> Result<VisibleItem> {
    let visible = by.state.gateway.visible_items(&by.caller.principal, ListKind::Tools).await;
    let detail = "there is no such tool: check its name in the list of tools";
    let found = visible.into_iter().find(|tool| *tool.exposed == *name);
    found.ok_or_else(|| Problem::not_found("TOOL_NOT_FOUND", detail))
}

fn show(by: &Context, tool: &VisibleItem) -> Result<Json<Tool>> {
    let detail = "the definition of this tool cannot be read";
    let tool = Tool::new(&by.caller, tool);
    tool.map(Json).ok_or_else(|| Problem::not_found("TOOL_NOT_FOUND", detail))
}

pub(crate) async fn list_tools(
    by: By<User>,
    Query(query): Query<Paged<ToolsQuery>>,
) -> Result<Json<Page<Tool>>> {
    let mut visible = by.state.gateway.visible_items(&by.caller.principal, ListKind::Tools).await;
    let ToolsQuery { server, category, .. } = &query.filter;
    if let Some(category) = category
        && is_category(&by.state, &by.caller, category) != Some(true)
    {
        visible.clear();
    }
    visible.retain(|tool| {
        [server, category].into_iter().flatten().all(|slug| slug == tool.server.slug())
    });
    let ToolsQuery { search, sort, order, .. } = query.filter;
    let sort = sort.unwrap_or(ToolSort::Name);
    let page = query.part.cut_sorted(
        search.as_deref(),
        visible,
        |tool| &tool.exposed,
        SortOrder::is_descending(order),
        |tool| rank(&by.caller, tool, sort),
    )?;
    Ok(Json(page.filter_map(|tool| Tool::new(&by.caller, &tool))))
}

pub(crate) async fn show_tool(by: By<User>, Path(name): Path<String>) -> Result<Json<Tool>> {
    show(&by, &find_tool(&by, &name).await?)
}

pub(crate) async fn reset_metrics(by: By<Admin>, Path(name): Path<String>) -> Result<Json<Tool>> {
    let found = find_tool(&by, &name).await?;
    require_control(&by.caller, &*found.server)?;
    let metrics = found.metrics.clone();
    let before = json!({"tool": name, "metrics": find_metrics(&by.caller, &found)});
    let record = ChangeRecord {
        action: "reset tool metrics",
        organisation: found.server.organisation().map(ToString::to_string),
        before: Some(before.to_string()),
        after: Some(json!({"tool": name}).to_string()),
    };
    by.record(async move {
        if let Some(metrics) = metrics {
            metrics.reset();
        }
        Ok(((), Some(record)))
    })
    .await?;
    show(&by, &found)
}

pub(crate) async fn execute_tool(
    by: By<User>,
    Path(name): Path<String>,
    origin: CallOrigin,
    Body(execution): Body<Execution>,
) -> Result<CallResult> {
    let mut params = Params::new();
    let arguments = match execution.arguments {
        Some(given) if !given.get().starts_with('{') => {
            return Err(Problem::in_body("/arguments", "must be an object"));
        }
        Some(given) => rename_arguments(&by, &name, given)?,
        None => param(&json!({}))?,
    };
    params.insert("name".to_owned(), param(&Value::String(name))?);
    params.insert("arguments".to_owned(), arguments);
    call(&by, &origin, Method::ToolsCall, params).await
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
fn rename_arguments(by: &Context, name: &str, given: Box<RawValue>) -> Result<Box<RawValue>> {
    let gateway = &by.state.gateway;
    let Some((server, own)) = gateway.find_target(&by.caller.principal, Method::ToolsCall, name)
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

// Prompts and resources that a caller may use.

types! {
/// A prompt.
output pub(crate) struct Prompt {
    /// Its identifier for requests.
    pub(crate) name: String,
    /// Its server.
    pub(crate) server: String,
    pub(crate) title: Option<String>,
    pub(crate) description: Option<String>,
    /// Its arguments, as declared by its server.
    #[cfg_attr(test, schema(value_type = Option<Vec<Object>>))]
    pub(crate) arguments: Option<Value>,
}

/// A resource.
output pub(crate) struct Resource {
    /// Its identifier for requests.
    pub(crate) uri: String,
    /// Its server.
    pub(crate) server: String,
    pub(crate) name: Option<String>,
    pub(crate) title: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) mime_type: Option<String>,
}
}

impl Prompt {
    pub(crate) fn new(item: &VisibleItem, mut definition: Map<String, Value>) -> Self {
        Self {
            name: item.exposed.to_string(),
            server: item.server.slug().to_owned(),
            title: take_text(&mut definition, "title"),
            description: take_text(&mut definition, "description"),
            arguments: definition.remove("arguments"),
        }
    }
}

impl Resource {
    pub(crate) fn new(item: &VisibleItem, mut definition: Map<String, Value>) -> Self {
        Self {
            uri: item.exposed.to_string(),
            server: item.server.slug().to_owned(),
            name: take_text(&mut definition, "name"),
            title: take_text(&mut definition, "title"),
            description: take_text(&mut definition, "description"),
            mime_type: take_text(&mut definition, "mimeType"),
        }
    }
}

types! {
filter pub(crate) struct OffersQuery {
    /// Part of the name or the URI.
    search: Option<String> max 256,
    /// Only items of this server.
    server: Option<String> max 64,
}
}

pub(crate) async fn list_prompts(
    by: By<User>,
    Query(query): Query<Paged<OffersQuery>>,
) -> Result<Json<Page<Prompt>>> {
    list_offers(&by, query, ListKind::Prompts, Prompt::new).await
}

pub(crate) async fn list_resources(
    by: By<User>,
    Query(query): Query<Paged<OffersQuery>>,
) -> Result<Json<Page<Resource>>> {
    list_offers(&by, query, ListKind::Resources, Resource::new).await
}

async fn list_offers<T>(
    by: &Context,
    Paged { part, filter }: Paged<OffersQuery>,
    kind: ListKind,
    show: Show<T>,
) -> Result<Json<Page<T>>> {
    let mut all = by.state.gateway.visible_items(&by.caller.principal, kind).await;
    if let Some(server) = &filter.server {
        all.retain(|item| item.server.slug() == server);
    }
    let page = part.cut(filter.search.as_deref(), all, |item| &item.exposed)?;
    Ok(Json(page.filter_map(|item| show_item(&item, show))))
}

/// Converts an item and its definition.
type Show<T> = fn(&VisibleItem, Map<String, Value>) -> T;

/// Returns the prompt of this name, or the resource of this URI, if the caller may use it.
pub(crate) async fn find_offer<T>(
    by: By<User>,
    kind: ListKind,
    name: &str,
    show: Show<T>,
) -> Option<T> {
    let all = by.state.gateway.visible_items(&by.caller.principal, kind).await;
    show_item(all.iter().find(|item| *item.exposed == *name)?, show)
}

/// Returns `None` if the definition of the item cannot be read.
fn show_item<T>(item: &VisibleItem, show: Show<T>) -> Option<T> {
    match json::from_slice(&item.text) {
        Ok(Value::Object(definition)) => Some(show(item, definition)),
        _ => None,
    }
}

pub(crate) fn take_text(definition: &mut Map<String, Value>, name: &str) -> Option<String> {
    match definition.remove(name) {
        Some(Value::String(text)) => Some(text),
        _ => None,
    }
}
