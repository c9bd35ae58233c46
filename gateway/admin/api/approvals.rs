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
        match self.0.get("id") {
            Some(Value::String(id)) => id,
            _ => "",
        }
    }
}

/// Returns the calls that wait for the caller, the oldest first.
pub(crate) fn list_waiting(By { state, caller, .. }: &By<User>) -> Vec<WaitingApproval> {
    let gateway = &state.gateway;
    let waiting = gateway.approvals.waiting.list(gateway.approver(&caller.principal));
    waiting.into_iter().map(WaitingApproval).collect()
}

/// Returns the calls that no longer wait for the caller, the newest first.
pub(crate) fn list_ended(By { state, caller, .. }: &By<User>) -> Vec<WaitingApproval> {
    let gateway = &state.gateway;
    let ended = gateway.approvals.waiting.list_ended(gateway.approver(&caller.principal));
    ended.into_iter().map(WaitingApproval).collect()
}

pub(crate) async fn list_approvals(
    by: By<User>,
    Query(query): Query<PageQuery>,
) -> Result<Json<Page<WaitingApproval>>, Problem> {
    Ok(Json(query.cut(list_waiting(&by), WaitingApproval::id)?))
}

pub(crate) async fn list_ended_approvals(
    by: By<User>,
    Query(query): Query<PageQuery>,
) -> Result<Json<Page<WaitingApproval>>, Problem> {
    Ok(Json(query.cut(list_ended(&by), WaitingApproval::id)?))
}

pub(crate) async fn show_approval(
    By { state, caller, .. }: By<User>,
    Path(id): Path<String>,
) -> Result<Json<WaitingApproval>, Problem> {
    let gateway = &state.gateway;
    match gateway.approvals.waiting.find(gateway.approver(&caller.principal), &id) {
        Some(call) => Ok(Json(WaitingApproval(call))),
        None => Err(Problem::not_found("APPROVAL_NOT_FOUND", UNKNOWN_CALL)),
    }
}

pub(crate) async fn approve_call(
    By { state, caller, .. }: By<User>,
    Path(id): Path<String>,
) -> Result<Json<Value>, Problem> {
    answer(&state, &caller, &id, true)
}

pub(crate) async fn deny_call(
    By { state, caller, .. }: By<User>,
    Path(id): Path<String>,
) -> Result<Json<Value>, Problem> {
    answer(&state, &caller, &id, false)
}

fn answer(
    state: &ApiState,
    caller: &Caller,
    id: &str,
    approve: bool,
) -> Result<Json<Value>, Problem> {
    let error = match state.gateway.answer_approval(&caller.principal, id, approve) {
        Ok(answered) => return Ok(Json(answered)),
        Err(error) => error,
    };
    let (status, code) = if error == ApproverError::Unknown {
        (StatusCode::NOT_FOUND, "APPROVAL_NOT_FOUND")
    } else {
        (StatusCode::CONFLICT, "APPROVAL_NOT_COUNTED")
    };
    Err(Problem::new(status, code, error.to_string()))
}
