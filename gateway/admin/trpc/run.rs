//! The actions of procedures: the caller's view, and tool calls through the request path of MCP on
//! behalf of the caller. Authorization happens there, and there is no other way to a server.

use std::sync::Arc;

use axum::Json;
use axum::http::{HeaderMap, StatusCode};
use lockgate_admission::reader::Reader;
use lockgate_authn::Role;
use lockgate_policy::pin;
use lockgate_protocol::method::Method;
use lockgate_proxy::transport::Transport;
use lockgate_text::json;
use lockgate_upstream::ListKind;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::answer::{Outcome, bad_request, describe_call, fail};
use super::input::{Action, Procedure};
use crate::api::access::{By, Caller, LeastRole};
use crate::api::answer::{CallResult, count, estimate_tree};
use crate::api::call::{CallError, CallOrigin, Params, param, send};
use crate::api::page::{Paged, PartQuery, Query};
use crate::api::problem::Problem;
use crate::api::servers::{Server, visible_servers};
use crate::api::state::ApiState;
use crate::api::tools::{self, ToolsQuery, find_spellings, is_category};
use crate::api::usage;

/// Tools per page.
const MAX_PAGE: usize = 200;

/// Runs procedures on behalf of a caller.
pub(crate) struct Run<'a> {
    state: &'a Arc<ApiState>,
    caller: &'a Caller,
    origin: CallOrigin,
}

impl<'a> Run<'a> {
    pub(crate) fn new(state: &'a Arc<ApiState>, caller: &'a Caller, headers: &HeaderMap) -> Self {
        Self { state, caller, origin: CallOrigin::new(headers.clone()) }
    }

    /// Runs a query or a mutation with its input.
    pub(crate) async fn procedure(
        &self,
        procedure: &Procedure,
        input: Option<&RawValue>,
    ) -> Outcome {
        // The parsed input counts against the budget for as long as it exists.
        let mut held = Reader::new(self.state.gateway.budget());
        if let Some(input) = input
            && held.hold(estimate_tree(input.get().as_bytes())).await.is_err()
        {
            let words = "not enough memory for this input (limits.bytes_in_flight): retry";
            return Err(fail(StatusCode::SERVICE_UNAVAILABLE, words));
        }
        let given = parse_input(input)?;
        let members = match procedure.action {
            Action::Status => Map::new(),
            _ => check_input(procedure, given)?,
        };
        match procedure.action {
            Action::Status => self.write(&self.describe_status().await).await,
            Action::Usage => self.show_usage(members).await,
            Action::ListTools => self.list_tools(&members).await,
            Action::ExecuteTool => {
                let name = read_text(&members, "name").unwrap_or("");
                self.execute(name, find_arguments(input)?).await
            }
            Action::Tool(tool) => self.execute_of_category(tool, members).await,
            Action::FetchPage => {
                self.execute_of_category("web/fetch", describe_page(members)).await
            }
            Action::FollowEvents => Ok(None),
        }
    }

    /// Serializes a value, which counts against the budget until it is written.
    async fn write(&self, value: &impl Serialize) -> Outcome {
        let Ok(text) = serde_json::to_vec(value) else {
            let words = "the result cannot be serialized";
            return Err(fail(StatusCode::INTERNAL_SERVER_ERROR, words));
        };
        Ok(Some(count(&self.state.gateway, text.len(), || text.into()).await?))
    }

    /// Returns the status of the gateway in the caller's view.
    async fn describe_status(&self) -> Value {
        let Self { state, caller, .. } = self;
        let tools = state.gateway.visible_items(&caller.principal, ListKind::Tools).await.len();
        let servers = visible_servers(state, caller).into_iter();
        let servers: Vec<_> = servers.map(|one| Server::new(state, caller, &*one)).collect();
        let mut total: u64 = 0;
        let mut failed = 0;
        for metrics in servers.iter().filter_map(|server| server.metrics.as_ref()) {
            total += metrics.calls;
            failed += metrics.errors.values().sum::<u64>();
        }
        let own = (caller.role != Role::Operator).then(|| caller.organisation());
        let mut status = json!({
            "name": "lockgate",
            "version": env!("CARGO_PKG_VERSION"),
            "organizationId": caller.organisation(),
            "servers": servers,
            "tools": tools,
            "requests": {"total": total, "failed": failed},
            "activeSessions": state.gateway.count_sessions(own),
        });
        if total > 0 {
            let succeeded = total.saturating_sub(failed);
            status["requests"]["successRate"] = (succeeded as f64 / total as f64).into();
        }
        status
    }

    fn by<R: LeastRole>(&self) -> Result<By<R>, Problem> {
        By::new(self.state, self.caller.clone())
    }

    async fn show_usage(&self, members: Map<String, Value>) -> Outcome {
        let query = serde_json::from_value(Value::Object(members))
            .map_err(|error| bad_request(error.to_string()))?;
        self.write(&usage::show_usage(self.by()?, Query(query)).await?.0).await
    }

    async fn list_tools(&self, members: &Map<String, Value>) -> Outcome {
        let filter = ToolsQuery {
            server: copy_text(members, "server"),
            category: copy_text(members, "category"),
            ..ToolsQuery::default()
        };
        let part = PartQuery { limit: Some(MAX_PAGE), cursor: copy_text(members, "cursor") };
        let query = Query(Paged { part, filter });
        let Json(page) = tools::list_tools(self.by()?, query).await?;
        let mut list = json!({"tools": page.items, "total": page.total});
        if let Some(cursor) = page.next_cursor {
            list["nextCursor"] = cursor.into();
        }
        self.write(&list).await
    }

    /// Runs `category/name` of the built-in server of that category, or the tool of the same name
    /// of the given server.
    async fn execute_of_category(&self, tool: &str, members: Map<String, Value>) -> Outcome {
        let server = copy_text(&members, "server");
        let arguments = param(&rename(members, find_spellings(tool)))?;
        let (category, own) = tool.split_once('/').unwrap_or_default();
        if let Some(server) = server {
            return self.execute(&format!("{server}/{own}"), arguments).await;
        }
        if is_category(self.state, self.caller, category) == Some(false) {
            // Another server's tool of this name must not be called instead.
            return Err(fail(StatusCode::NOT_FOUND, format!("unknown tool: {tool}")));
        }
        self.execute(tool, arguments).await
    }

    async fn execute(&self, name: &str, arguments: Box<RawValue>) -> Outcome {
        let mut params = Params::new();
        params.insert("name".to_owned(), param(&Value::from(name))?);
        params.insert("arguments".to_owned(), arguments);
        let method = Method::ToolsCall;
        let transport = Transport::Trpc;
        let sent = send(self.state, self.caller, &self.origin, transport, method, params).await;
        match sent {
            Ok(result) => check_complete(result),
            Err(error) if self.may_approve(&error, name) => {
                let words = "the definition of the tool is not approved: GET /api/pins/diff shows \
                    the difference, POST /api/pins/approve approves it";
                Err(fail(StatusCode::PRECONDITION_FAILED, words))
            }
            Err(error) => Err(describe_call(error)),
        }
    }

    /// Returns whether an unknown tool is quarantined and this caller may approve it. Other callers
    /// must not be able to distinguish such a tool from a missing one.
    fn may_approve(&self, error: &CallError, name: &str) -> bool {
        if error.problem.status() != StatusCode::NOT_FOUND || self.caller.role == Role::User {
            return false;
        }
        let gateway = &self.state.gateway;
        let mut all = gateway.flagged_tools(Some(self.caller.organisation()));
        if self.caller.role == Role::Operator {
            all.extend(gateway.flagged_tools(None));
        }
        all.iter().any(|one| {
            let is_named = one.exposed == name || name == pin::name(&one.slug, &one.tool);
            one.quarantined && is_named
        })
    }
}

pub(super) fn parse_input(input: Option<&RawValue>) -> Result<Option<Value>, Problem> {
    let parsed = input.map(|input| json::from_str(input.get())).transpose();
    parsed.map_err(|error| bad_request(error.to_string()))
}

/// Validates an input and returns its members.
pub(super) fn check_input(
    procedure: &Procedure,
    given: Option<Value>,
) -> Result<Map<String, Value>, Problem> {
    procedure.check(given).map_err(|issues| {
        // Clients look for zod's issues in the message.
        let issues = Value::Array(issues);
        bad_request(issues.to_string()).with("issues", issues)
    })
}

pub(super) fn read_text<'a>(members: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    members.get(name)?.as_str()
}

fn copy_text(members: &Map<String, Value>, name: &str) -> Option<String> {
    Some(read_text(members, name)?.to_owned())
}

/// Returns the arguments of `mcp.executeTool` exactly as they were written.
fn find_arguments(input: Option<&RawValue>) -> Result<Box<RawValue>, Problem> {
    #[derive(Deserialize)]
    struct Execution {
        arguments: Option<Box<RawValue>>,
    }
    let given = input.map_or("{}", RawValue::get);
    match json::from_str(given) {
        Ok(Execution { arguments: Some(arguments) }) => Ok(arguments),
        Ok(Execution { arguments: None }) => Ok(param(&json!({}))?),
        Err(error) => Err(bad_request(error.to_string())),
    }
}

/// Converts the members of an input to the arguments of its tool.
fn rename(members: Map<String, Value>, names: &[(&str, &str)]) -> Value {
    let members = members.into_iter().filter(|(name, _)| name != "server");
    let arguments = members.map(|(name, value)| {
        let other = names.iter().find(|(own, _)| *own == name);
        (other.map_or(name, |(_, other)| (*other).to_owned()), value)
    });
    Value::Object(arguments.collect())
}

fn describe_page(mut members: Map<String, Value>) -> Map<String, Value> {
    match members.remove("extractText") {
        Some(Value::Bool(true)) => members.insert("format".to_owned(), "text".into()),
        Some(Value::Bool(false)) => members.insert("format".to_owned(), "raw".into()),
        _ => None,
    };
    members
}

/// Returns the result of a call. Fails if the tool has questions for the caller, because tRPC has
/// no second round.
fn check_complete(result: CallResult) -> Outcome {
    let Some(asked) = result.input_requests else { return Ok(Some(result.text)) };
    let words = "the tool requires input from its caller: call it over MCP";
    let failure = fail(StatusCode::PRECONDITION_REQUIRED, words);
    Err(failure.with("inputRequests", asked))
}
