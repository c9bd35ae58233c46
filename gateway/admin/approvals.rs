//! HTTP routes for approvers: their pending calls, and decisions on them. The composition root puts
//! the routes behind authentication, except the page that a link opens, which contains no data
//! itself.

use std::sync::Arc;

use axum::extract::{Path, RawQuery, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Router};
use serde_json::{Value, json};

use crate::router::json_response;

const PAGE: &str = include_str!("approvals/page.html");
const SCRIPT: &str = include_str!("approvals/page.js");
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'unsafe-inline'; \
    connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Calls that are pending approval.
pub trait Approvals: Send + Sync + 'static {
    /// An authenticated approver.
    type Approver: Clone + Send + Sync + 'static;

    /// Returns the calls that this approver may approve.
    fn list(&self, approver: &Self::Approver) -> Vec<Value>;

    /// Returns the call with this id, if this approver may approve it.
    fn find(&self, approver: &Self::Approver, id: &str) -> Option<Value>;

    /// Returns whether a token is valid for the link to a call.
    fn opens(&self, id: &str, token: &str) -> bool;

    /// Records a decision and returns the resulting state of the call.
    ///
    /// # Errors
    /// Returns an error if the decision does not count.
    fn answer(
        &self,
        approver: &Self::Approver,
        id: &str,
        approve: bool,
    ) -> Result<Value, AnswerError>;
}

/// The reason why a decision does not count.
#[derive(Debug)]
pub struct AnswerError {
    pub words: String,
    /// No call with this id is pending for this approver.
    pub is_unknown: bool,
}

/// Creates the router of `GET /approvals`, `GET /approvals/ID`, `POST /approvals/ID/approve` and
/// `POST /approvals/ID/deny`, for requests that carry their approver as an extension.
pub fn approvals_router<A: Approvals>(approvals: Arc<A>) -> Router {
    Router::new()
        .route("/approvals", get(list::<A>))
        .route("/approvals/{id}", get(find::<A>))
        .route("/approvals/{id}/{decision}", post(answer::<A>))
        .with_state(approvals)
}

/// Creates the router of `GET /approvals/ID/open?token=TOKEN`, the page of a call for holders of
/// its link. The page asks for a credential and fetches the call with it.
pub fn page_router<A: Approvals>(approvals: Arc<A>) -> Router {
    Router::new()
        .route("/approvals/{id}/open", get(open_page::<A>))
        .route("/approvals/page.js", get(async || page_response("text/javascript", SCRIPT)))
        .with_state(approvals)
}

async fn open_page<A: Approvals>(
    State(approvals): State<Arc<A>>,
    Path(id): Path<String>,
    RawQuery(query): RawQuery,
) -> Response {
    let mut pairs = query.as_deref().unwrap_or("").split('&');
    let token = pairs.find_map(|pair| pair.strip_prefix("token=")).unwrap_or("");
    if approvals.opens(&id, token) {
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

async fn find<A: Approvals>(
    State(approvals): State<Arc<A>>,
    Extension(approver): Extension<A::Approver>,
    Path(id): Path<String>,
) -> Response {
    match approvals.find(&approver, &id) {
        Some(call) => json_response(StatusCode::OK, call.to_string()),
        None => refuse(StatusCode::NOT_FOUND, "no call with this id is waiting for your approval"),
    }
}

async fn list<A: Approvals>(
    State(approvals): State<Arc<A>>,
    Extension(approver): Extension<A::Approver>,
) -> Response {
    let waiting = approvals.list(&approver);
    json_response(StatusCode::OK, json!({"approvals": waiting}).to_string())
}

async fn answer<A: Approvals>(
    State(approvals): State<Arc<A>>,
    Extension(approver): Extension<A::Approver>,
    Path((id, decision)): Path<(String, String)>,
) -> Response {
    let approve = match decision.as_str() {
        "approve" => true,
        "deny" => false,
        _ => return refuse(StatusCode::NOT_FOUND, "the decision must be `approve` or `deny`"),
    };
    match approvals.answer(&approver, &id, approve) {
        Ok(state) => json_response(StatusCode::OK, state.to_string()),
        Err(error) if error.is_unknown => refuse(StatusCode::NOT_FOUND, &error.words),
        Err(error) => refuse(StatusCode::CONFLICT, &error.words),
    }
}

fn refuse(status: StatusCode, words: &str) -> Response {
    json_response(status, json!({"error": words}).to_string())
}

#[cfg(test)]
mod tests;
