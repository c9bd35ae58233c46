//! Servers as a caller may know them: all for operators, with the words of their trouble; for
//! everybody else those that policy lets them see, with the reason alone.

use std::sync::Arc;
use std::time::SystemTime;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use lockgate_text::date;
use lockgate_upstream::{ListKind, Upstream};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::access::{Caller, Role};
use super::page::{Page, PageQuery};
use super::problem::Problem;
use super::query::Query;
use super::state::{ApiState, Shared};

/// A server.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Server {
    name: String,
    /// `pending`, `connected`, `unresponsive`, `needs-auth`, `failed` or `disabled`.
    state: &'static str,
    /// The stage that failed: `start`, `connect`, `handshake`, `discovery` or `run`.
    #[serde(skip_serializing_if = "Option::is_none")]
    stage: Option<&'static str>,
    /// Why it is in this state, in words.
    reason: String,
    /// Since when (RFC 3339).
    since: String,
    /// When it last said anything (RFC 3339), unless it comes with the gateway.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_heard: Option<String>,
    /// `stdio`, `http`, `sse` or `builtin`, once it was connected.
    #[serde(skip_serializing_if = "Option::is_none")]
    transport: Option<&'static str>,
    /// The revision of MCP that is spoken with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    revision: Option<&'static str>,
    capabilities: Capabilities,
    /// Starts and connects after the first one.
    restarts: u64,
    /// For operators: the failure in the server's own words, the end of its standard error, and
    /// how it stands to its limits.
    #[serde(skip_serializing_if = "Option::is_none")]
    operator: Option<Internals>,
}

/// How many of each a server offers.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Capabilities {
    tools: usize,
    prompts: usize,
    resources: usize,
}

/// What is for operators alone.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Internals {
    #[serde(skip_serializing_if = "Option::is_none")]
    trouble: Option<String>,
    stderr: Vec<String>,
    /// What was left out of its lists, and why.
    omitted: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    load: Option<Value>,
}

impl Server {
    fn new(server: &dyn Upstream, role: Role) -> Self {
        let status = server.status();
        let catalog = server.catalog();
        let peer = status.peer.as_ref();
        let stage = status.trouble.as_ref().map(|trouble| trouble.stage.as_str());
        let operator = match role {
            Role::Operator => Some(Internals::new(server)),
            Role::Admin | Role::User => None,
        };
        Self {
            name: server.slug().to_owned(),
            state: status.state.as_str(),
            stage,
            reason: status.reason(),
            since: status.since_text(),
            last_heard: last_heard(server),
            transport: peer.map(|peer| peer.transport),
            revision: peer.map(|peer| peer.revision.as_str()),
            capabilities: Capabilities {
                tools: catalog.items(ListKind::Tools).len(),
                prompts: catalog.items(ListKind::Prompts).len(),
                resources: catalog.items(ListKind::Resources).len(),
            },
            restarts: status.restarts,
            operator,
        }
    }
}

impl Internals {
    fn new(server: &dyn Upstream) -> Self {
        let status = server.status();
        let mut trouble = None;
        let mut stderr = Vec::new();
        if let Some(found) = &status.trouble {
            trouble = Some(found.to_string());
            stderr.clone_from(&found.stderr);
        }
        let load = server.load().map(|load| load.json());
        Self { trouble, stderr, omitted: server.catalog().omitted.clone(), load }
    }
}

fn last_heard(server: &dyn Upstream) -> Option<String> {
    let at = SystemTime::now().checked_sub(server.load()?.silent)?;
    let since = at.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    Some(date::of_seconds(i64::try_from(since.as_secs()).ok()?))
}

/// The servers that a caller may know of.
pub(crate) fn visible_servers(state: &ApiState, caller: &Caller) -> Vec<Arc<dyn Upstream>> {
    match caller.role {
        Role::Operator => state.gateway.servers(),
        Role::Admin | Role::User => state.gateway.visible_servers(&caller.principal),
    }
}

fn find_server(
    state: &ApiState,
    caller: &Caller,
    name: &str,
) -> Result<Arc<dyn Upstream>, Problem> {
    let mut servers = visible_servers(state, caller).into_iter();
    servers.find(|server| server.slug() == name).ok_or_else(unknown_server)
}

fn unknown_server() -> Problem {
    let detail = "there is no such server; GET /api/servers lists them";
    Problem::not_found("SERVER_NOT_FOUND", detail)
}

/// The servers that the caller may see.
#[utoipa::path(
    get,
    path = "/servers",
    tag = "servers",
    params(PageQuery),
    responses((status = 200, body = Page<Server>))
)]
pub(crate) async fn list_servers(
    State(state): Shared,
    caller: Caller,
    Query(query): Query<PageQuery>,
) -> Result<Json<Page<Server>>, Problem> {
    let mut all = Vec::new();
    for server in visible_servers(&state, &caller) {
        all.push(Server::new(&*server, caller.role));
    }
    query.cut(all, |server| &server.name).map(Json)
}

/// One server.
#[utoipa::path(
    get,
    path = "/servers/{name}",
    tag = "servers",
    params(("name" = String, Path)),
    responses((status = 200, body = Server), (status = 404, description = "No such server"))
)]
pub(crate) async fn show_server(
    State(state): Shared,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<Json<Server>, Problem> {
    let server = find_server(&state, &caller, &name)?;
    Ok(Json(Server::new(&*server, caller.role)))
}

/// Ends the connection to a server and connects anew.
///
/// Calls that run there are cut off. Only servers of the configuration can be told to.
#[utoipa::path(
    post,
    path = "/servers/{name}/reconnect",
    tag = "servers",
    params(("name" = String, Path)),
    responses((status = 200, body = Server), (status = 404, description = "No such server"))
)]
pub(crate) async fn reconnect_server(
    State(state): Shared,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<Json<Server>, Problem> {
    find_server(&state, &caller, &name)?;
    if !state.operations.reconnect(&name) {
        let detail = "this server comes with the gateway: there is no connection to it";
        return Err(Problem::new(StatusCode::CONFLICT, "SERVER_BUILT_IN", detail));
    }
    let who = format!("{}|{}", caller.principal.issuer, caller.principal.subject);
    tracing::info!(target: "audit", server = name, who, "server reconnected");
    let server = find_server(&state, &caller, &name)?;
    Ok(Json(Server::new(&*server, caller.role)))
}
