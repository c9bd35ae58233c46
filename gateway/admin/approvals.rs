//! HTTP routes for approvers: their pending calls, and decisions on them. The composition root puts
//! the routes behind authentication, except the page that a link opens, which contains no data
//! itself.

use std::sync::Arc;

use axum::extract::{Path, RawQuery, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Router};
use lockgate_authn::Principal;
use lockgate_proxy::{ApproverError, Gateway};
use serde_json::json;

use crate::router::json_response;

/// The error for a call that this approver may not approve, or that does not exist.
pub(crate) const UNKNOWN_CALL: &str = "no call with this id is waiting for your approval";

const PAGE: &str = include_str!("approvals/page.html");
const SCRIPT: &str = include_str!("approvals/page.js");
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'unsafe-inline'; \
    connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Creates the router of `GET /approvals`, `GET /approvals/ID`, `POST /approvals/ID/approve` and
/// `POST /approvals/ID/deny`, for requests that carry their approver as an extension.
pub fn approvals_router(gateway: Arc<Gateway>) -> Router {
    Router::new()
        .route("/approvals", get(list))
        .route("/approvals/{id}", get(find))
        .route("/approvals/{id}/{decision}", post(answer))
        .with_state(gateway)
}

/// Creates the router of `GET /approvals/ID/open?token=TOKEN`, the page of a call for holders of
/// its link. The page asks for a credential and fetches the call with it.
pub fn page_router(gateway: Arc<Gateway>) -> Router {
    Router::new()
        .route("/approvals/{id}/open", get(open_page))
        .route("/approvals/page.js", get(async || page_response("text/javascript", SCRIPT)))
        .with_state(gateway)
}

async fn open_page(
    State(gateway): State<Arc<Gateway>>,
    Path(id): Path<String>,
    RawQuery(query): RawQuery,
) -> Response {
    let mut pairs = query.as_deref().unwrap_or("").split('&');
    let token = pairs.find_map(|pair| pair.strip_prefix("token=")).unwrap_or("");
    if gateway.opens_approval(&id, token) {
        page_response("text/html", PAGE)
    } else {
        refuse(StatusCode::NOT_FOUND, "this link is not valid, or has expired")
    }
}

/// Returns a static file that may not load external resources or be framed by other pages.
fn page_response(kind: &'static str, text: &'static str) -> Response {
    let head = [
        (header::CONTENT_TYPE, kind),
        (header::CACHE_CONTROL, "no-store"),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    (head, text).into_response()
}

async fn find(
    State(gateway): State<Arc<Gateway>>,
    Extension(approver): Extension<Principal>,
    Path(id): Path<String>,
) -> Response {
    match gateway.approvals.waiting.find(gateway.approver(&approver), &id) {
        Some(call) => json_response(StatusCode::OK, call.to_string()),
        None => refuse(StatusCode::NOT_FOUND, UNKNOWN_CALL),
    }
}

async fn list(
    State(gateway): State<Arc<Gateway>>,
    Extension(approver): Extension<Principal>,
) -> Response {
    let waiting = gateway.approvals.waiting.list(gateway.approver(&approver)).into_iter();
    let waiting: Vec<_> = waiting.map(|(_, call)| call).collect();
    json_response(StatusCode::OK, json!({"approvals": waiting}).to_string())
}

async fn answer(
    State(gateway): State<Arc<Gateway>>,
    Extension(approver): Extension<Principal>,
    Path((id, decision)): Path<(String, String)>,
) -> Response {
    let approve = match decision.as_str() {
        "approve" => true,
        "deny" => false,
        _ => return refuse(StatusCode::NOT_FOUND, "the decision must be `approve` or `deny`"),
    };
    match gateway.answer_approval(&approver, &id, approve) {
        Ok(state) => json_response(StatusCode::OK, state.to_string()),
        Err(error @ ApproverError::Unknown) => refuse(StatusCode::NOT_FOUND, &error.to_string()),
        Err(error) => refuse(StatusCode::CONFLICT, &error.to_string()),
    }
}

fn refuse(status: StatusCode, words: &str) -> Response {
    json_response(status, json!({"error": words}).to_string())
}

#[cfg(test)]
mod tests {
    use super::SCRIPT;

    #[test]
    fn the_script_parses_no_data_as_markup_and_stores_nothing() {
        for word in ["innerHTML", "insertAdjacent", "eval", "Storage", "cookie"] {
            assert!(!SCRIPT.contains(word), "{word}");
        }
    }
}
