//! Errors of the API as pages, and the memory of pages in the budget of bytes in flight: memory for
//! the parsed result of a call is reserved before parsing, and a rendered page is charged until its
//! last byte is sent.

use std::sync::Arc;

use axum::body::{Body, Bytes, HttpBody, to_bytes};
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use lockgate_admission::budget::Budget;
use lockgate_admission::reader::{NoMemory, Reader};
use lockgate_admission::{CallerId, CpuPool};
use lockgate_proxy::Gateway;
use lockgate_text::json;
use serde_json::Value;

use super::assets::{accepts_gzip, compress};
use super::render::{PageError, TOO_MUCH};
use super::sessions::Visitor;
use crate::api::answer::estimate_tree;
use crate::api::problem::Problem;
use crate::fault::sentence;

impl From<Problem> for PageError {
    fn from(problem: Problem) -> Self {
        let title = match problem.status() {
            _ if problem.code() == TOO_LARGE => TOO_MUCH,
            StatusCode::NOT_FOUND => "Not found",
            StatusCode::FORBIDDEN => "Access denied",
            StatusCode::UNAUTHORIZED => "You are signed out",
            StatusCode::CONFLICT | StatusCode::PRECONDITION_FAILED => "It changed in the meantime",
            StatusCode::TOO_MANY_REQUESTS => "Too many requests",
            StatusCode::SERVICE_UNAVAILABLE => "The gateway is busy",
            status if status.is_client_error() => "The request is not valid",
            _ => "The gateway failed",
        };
        let detail = match problem.status() {
            // The detail of the API refers to its own lists, which do not help visitors.
            StatusCode::NOT_FOUND => "It was removed or renamed, or you may not see it.".into(),
            _ => sentence(problem.detail()),
        };
        Self { refusal: problem.refusal(), ..Self::new(problem.status(), title, detail) }
    }
}

// The memory of pages.

/// Larger results are parsed on a separate thread.
const LARGE: usize = 1 << 20;
/// Maximum size of the result of a call that a page reads, in bytes.
const MAX_RESULT: usize = 8 << 20;
/// Error code of a result above [`MAX_RESULT`].
pub(crate) const TOO_LARGE: &str = "ANSWER_TOO_LARGE";

/// The budget and threads shared by the pages of all visitors.
#[derive(Clone)]
pub(crate) struct PageAccount {
    pub(crate) budget: Arc<Budget>,
    pub(crate) cpu_pool: Arc<CpuPool>,
}

impl PageAccount {
    pub(crate) fn new(gateway: &Gateway) -> Self {
        let budget = Arc::clone(gateway.budget());
        Self { budget, cpu_pool: Arc::clone(gateway.cpu_pool()) }
    }

    /// Parses the result of a call once there is memory for its tree, which the returned reader
    /// holds. `path` is its path in the API.
    pub(crate) async fn read(
        &self,
        caller: CallerId,
        text: Bytes,
        path: &str,
    ) -> Result<(Reader, Value), Problem> {
        if text.len() > MAX_RESULT {
            let detail = format!("the answer is larger than 8 MiB: use the API at {path}");
            return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, TOO_LARGE, detail));
        }
        let mut held = Reader::new(&self.budget);
        held.hold(estimate_tree(&text)).await.map_err(|NoMemory| busy())?;
        let read = if text.len() <= LARGE {
            json::from_slice(&text)
        } else {
            let turn = self.cpu_pool.turn(caller).await.map_err(|_| busy())?;
            turn.run(move || json::from_slice(&text)).await
        };
        read.map(|value| (held, value)).map_err(|_| {
            let detail = "the page cannot read an answer of the gateway; the log of the gateway \
                has the cause";
            Problem::new(StatusCode::BAD_GATEWAY, "INTERNAL", detail)
        })
    }
}

fn busy() -> Problem {
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "OVERLOADED", PageError::busy().detail)
}

/// Counts the pages of identified visitors, except streams.
pub(crate) async fn count_page(
    State(account): State<PageAccount>,
    request: Request,
    next: Next,
) -> Response {
    let is_known = request.extensions().get::<Visitor>().is_some();
    let accepts = accepts_gzip(request.headers());
    let response = next.run(request).await;
    if !is_known || response.body().size_hint().exact().is_none() {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    // Its size is exact, so the body is already in memory.
    let Ok(text) = to_bytes(body, usize::MAX).await else {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    };
    let text = compress(&mut parts, text, accepts);
    let mut reader = Reader::new(&account.budget);
    match reader.hold(text.len()).await {
        Ok(()) => Response::from_parts(parts, Body::from(reader.finish(text, 0))),
        Err(NoMemory) => PageError::busy().into_response(),
    }
}

#[cfg(test)]
mod tests;
