//! Charges console pages to the bytes-in-flight budget: memory for the parsed result of a call is
//! reserved before parsing, and a rendered page is charged until its last byte is sent.

use std::sync::Arc;

use axum::body::{Body, Bytes, HttpBody, to_bytes};
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use lockgate_admission::budget::Budget;
use lockgate_admission::reader::{NoMemory, Reader};
use lockgate_admission::{CallerId, CpuPool};
use serde_json::Value;
use tokio::sync::Mutex;

use super::assets::{accepts_gzip, compress};
use super::error::PageError;
use super::sessions::Visitor;
use crate::api::answer::estimate_tree;
use crate::api::problem::Problem;

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

/// The memory held by the page of one request, released on drop.
pub(crate) struct PageHold {
    account: PageAccount,
    caller: CallerId,
    held: Mutex<Held>,
}

struct Held {
    reader: Reader,
    bytes: usize,
}

impl PageAccount {
    pub(crate) fn begin(&self, caller: CallerId) -> PageHold {
        let held = Held { reader: Reader::new(&self.budget), bytes: 0 };
        PageHold { account: self.clone(), caller, held: Mutex::new(held) }
    }
}

impl PageHold {
    /// Parses the result of a call once there is memory for its tree.
    /// `path` is its path in the API.
    pub(crate) async fn read(&self, text: Bytes, path: &str) -> Result<Value, Problem> {
        if text.len() > MAX_RESULT {
            let detail = format!("the answer is larger than 8 MiB: use the API at {path}");
            return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, TOO_LARGE, detail));
        }
        let mut held = self.held.lock().await;
        let bytes = held.bytes.saturating_add(estimate_tree(&text));
        held.reader.hold(bytes).await.map_err(|NoMemory| busy())?;
        held.bytes = bytes;
        drop(held);
        let read = if text.len() <= LARGE {
            serde_json::from_slice(&text)
        } else {
            let turn = self.account.cpu_pool.turn(self.caller).await.map_err(|_| busy())?;
            turn.run(move || serde_json::from_slice(&text)).await
        };
        read.map_err(|_| {
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
