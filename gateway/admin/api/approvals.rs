//! Calls that are pending approval, as at `/approvals` beside MCP. Policies decide which callers
//! may approve a call; roles of the API do not matter.

use lockgate_proxy::ApproverError;

use super::operation::*;
use crate::approvals::UNKNOWN_CALL;

/// A waiting call, as described in [policy.md](policy.md#approvals).
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema), schema(value_type = Object))]
pub(crate) struct WaitingApproval(pub(crate) Value);

impl WaitingApproval {
    fn id(&self) -> &str {
        self.0["id"].as_str().unwrap_or("")
    }
}

/// Returns the calls that wait for the caller, the oldest first.
pub(crate) fn list_waiting(by: &Context) -> Vec<WaitingApproval> {
    let gateway = &by.state.gateway;
    let waiting = gateway.approvals.waiting.list(gateway.approver(&by.caller.principal));
    waiting.into_iter().map(WaitingApproval).collect()
}

/// Returns the calls that no longer wait for the caller, the newest first.
pub(crate) fn list_ended(by: &Context) -> Vec<WaitingApproval> {
    let gateway = &by.state.gateway;
    let ended = gateway.approvals.waiting.list_ended(gateway.approver(&by.caller.principal));
    ended.into_iter().map(WaitingApproval).collect()
}

pub(crate) async fn list_approvals(
    by: By<User>,
    Query(query): Query<PageQuery>,
) -> Result<Json<Page<WaitingApproval>>> {
    Ok(Json(query.cut(list_waiting(&by), WaitingApproval::id)?))
}

pub(crate) async fn list_ended_approvals(
    by: By<User>,
    Query(query): Query<PageQuery>,
) -> Result<Json<Page<WaitingApproval>>> {
    Ok(Json(query.cut(list_ended(&by), WaitingApproval::id)?))
}

pub(crate) async fn show_approval(
    by: By<User>,
    Path(id): Path<String>,
) -> Result<Json<WaitingApproval>> {
    let gateway = &by.state.gateway;
    let found = gateway.approvals.waiting.find(gateway.approver(&by.caller.principal), &id);
    let found = found.ok_or_else(|| Problem::not_found("APPROVAL_NOT_FOUND", UNKNOWN_CALL))?;
    Ok(Json(WaitingApproval(found)))
}

pub(crate) async fn approve_call(by: By<User>, Path(id): Path<String>) -> Result<Json<Value>> {
    answer(&by, &id, true)
}

pub(crate) async fn deny_call(by: By<User>, Path(id): Path<String>) -> Result<Json<Value>> {
    answer(&by, &id, false)
}

fn answer(by: &Context, id: &str, approve: bool) -> Result<Json<Value>> {
    let answered = by.state.gateway.answer_approval(&by.caller.principal, id, approve);
    answered.map(Json).map_err(|error| {
        let (status, code) = match error {
            ApproverError::Unknown => (StatusCode::NOT_FOUND, "APPROVAL_NOT_FOUND"),
            _ => (StatusCode::CONFLICT, "APPROVAL_NOT_COUNTED"),
        };
        Problem::new(status, code, error.to_string())
    })
}
