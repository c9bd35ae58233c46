//! What approvers ask for over HTTP: the calls that wait for them, and their answers. Who asks was
//! found out before; the composition root puts these routes behind authentication, except the page
//! that a link opens: it shows nothing by itself.

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

/// Calls that wait for a person.
pub trait Approvals: Send + Sync + 'static {
    /// Somebody who is known.
    type Approver: Clone + Send + Sync + 'static;

    /// What this approver may approve.
    fn list(&self, approver: &Self::Approver) -> Vec<Value>;

    /// The call of this id, if this approver may approve it.
    fn find(&self, approver: &Self::Approver, id: &str) -> Option<Value>;

    /// Whether the link to this call has this token.
    fn opens(&self, id: &str, token: &str) -> bool;

    /// Counts an answer; gives how the call stands then.
    ///
    /// # Errors
    /// Why it does not count.
    fn answer(
        &self,
        approver: &Self::Approver,
        id: &str,
        approve: bool,
    ) -> Result<Value, AnswerError>;
}

/// An answer that does not count, in words.
#[derive(Debug)]
pub struct AnswerError {
    pub words: String,
    /// Nothing of this name waits for this approver.
    pub is_unknown: bool,
}

/// `GET /approvals`, `GET /approvals/ID`, `POST /approvals/ID/approve` and `POST
/// /approvals/ID/deny`, for requests that carry their approver as an extension.
pub fn approvals_router<A: Approvals>(approvals: Arc<A>) -> Router {
    Router::new()
        .route("/approvals", get(list::<A>))
        .route("/approvals/{id}", get(find::<A>))
        .route("/approvals/{id}/{decision}", post(answer_one::<A>))
        .with_state(approvals)
}

/// `GET /approvals/ID/open?token=TOKEN`, the page of one call, for whoever has its link: it asks
/// for a credential, and for the call with that.
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

/// Nothing of another place is loaded, and no other page shows it.
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
        None => refuse(StatusCode::NOT_FOUND, "no call with this id waits for you"),
    }
}

async fn list<A: Approvals>(
    State(approvals): State<Arc<A>>,
    Extension(approver): Extension<A::Approver>,
) -> Response {
    let waiting = approvals.list(&approver);
    json_response(StatusCode::OK, json!({"approvals": waiting}).to_string())
}

async fn answer_one<A: Approvals>(
    State(approvals): State<Arc<A>>,
    Extension(approver): Extension<A::Approver>,
    Path((id, decision)): Path<(String, String)>,
) -> Response {
    answer(&*approvals, &approver, &id, &decision)
}

fn answer<A: Approvals>(
    approvals: &A,
    approver: &A::Approver,
    id: &str,
    decision: &str,
) -> Response {
    let approve = match decision {
        "approve" => true,
        "deny" => false,
        _ => return refuse(StatusCode::NOT_FOUND, "there are `approve` and `deny`"),
    };
    match approvals.answer(approver, id, approve) {
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
