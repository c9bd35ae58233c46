//! What approvers ask for over HTTP: the calls that wait for them, and their answers. Who asks was
//! found out before; the composition root puts these routes behind authentication.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::{get, post};
use axum::{Extension, Router};
use serde_json::{Value, json};

use crate::router::json_response;

/// Calls that wait for a person.
pub trait Approvals: Send + Sync + 'static {
    /// Somebody who is known.
    type Approver: Clone + Send + Sync + 'static;

    /// What this approver may approve.
    fn list(&self, approver: &Self::Approver) -> Vec<Value>;

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

/// `GET /approvals`, `POST /approvals/ID/approve` and `POST /approvals/ID/deny`, for requests that
/// carry their approver as an extension.
pub fn approvals_router<A: Approvals>(approvals: Arc<A>) -> Router {
    Router::new()
        .route("/approvals", get(list::<A>))
        .route("/approvals/{id}/{decision}", post(answer_one::<A>))
        .with_state(approvals)
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
