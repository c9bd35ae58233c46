//! Calls that are pending approval, as at `/approvals` beside MCP. Policies decide which callers
//! may approve a call; roles of the API do not matter.

use std::time::SystemTime;

use lockgate_proxy::ApproverError;
use lockgate_text::date::to_ms;

use super::figures::rank_number;
use super::operation::*;
use crate::approvals::UNKNOWN_CALL;

/// A waiting call, as described in [policy.md](policy.md#approvals).
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema), schema(value_type = Object))]
pub(crate) struct WaitingApproval(pub(crate) Value);

/// Returns the calls that wait for the caller, the oldest first.
pub(crate) fn list_waiting(by: &Context) -> Vec<WaitingApproval> {
    show_calls(list_timed(by, false))
}

/// Returns the calls that no longer wait for the caller, the newest first.
pub(crate) fn list_ended(by: &Context) -> Vec<WaitingApproval> {
    show_calls(list_timed(by, true))
}

fn list_timed(by: &Context, has_ended: bool) -> Vec<(SystemTime, Value)> {
    let gateway = &by.state.gateway;
    let approver = gateway.approver(&by.caller.principal);
    let calls = &gateway.approvals.waiting;
    if has_ended { calls.list_ended(approver) } else { calls.list(approver) }
}

fn show_calls(calls: Vec<(SystemTime, Value)>) -> Vec<WaitingApproval> {
    calls.into_iter().map(|(_, call)| WaitingApproval(call)).collect()
}

/// Returns a page of the calls that wait for the caller, or no longer do.
fn cut(by: &Context, query: &PageQuery, has_ended: bool) -> Result<Json<Page<WaitingApproval>>> {
    let search = query.filter.search.as_deref();
    let page = query.part.cut_sorted(
        search,
        list_timed(by, has_ended),
        |(_, call)| call["id"].as_str().unwrap_or(""),
        has_ended,
        |(time, _)| Some(rank_number(to_ms(*time).unsigned_abs())),
    )?;
    Ok(Json(page.map(|(_, call)| WaitingApproval(call))))
}

pub(crate) async fn list_approvals(
    by: By<User>,
    Query(query): Query<PageQuery>,
) -> Result<Json<Page<WaitingApproval>>> {
    cut(&by, &query, false)
}

pub(crate) async fn list_ended_approvals(
    by: By<User>,
    Query(query): Query<PageQuery>,
) -> Result<Json<Page<WaitingApproval>>> {
    cut(&by, &query, true)
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
