//! Charges console pages to the bytes-in-flight budget: memory for a parsed API response is
//! reserved before parsing, and a rendered page is charged until its last byte is sent.

use std::sync::Arc;

use axum::body::{Body, Bytes, HttpBody, to_bytes};
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use lockgate_admission::budget::Budget;
use lockgate_admission::reader::{NoMemory, Reader};
use lockgate_admission::{CallerId, ConcurrencyError, CpuPool};
use tokio::sync::Mutex;

use super::compress::{accepts_gzip, compress};
use super::error::PageError;
use super::visitor::Visitor;
use crate::api::answer::estimate_tree;

/// Larger responses are parsed on a separate thread.
const LARGE: usize = 1 << 20;

/// The budget and threads shared by the pages of all visitors.
#[derive(Clone)]
pub(crate) struct PageAccount {
    pub(crate) budget: Arc<Budget>,
    pub(crate) cpu_pool: Arc<CpuPool>,
}

/// The reason that a response cannot be read.
pub(crate) enum ReadError {
    Busy,
    Json,
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
    /// Parses a response of the API once there is memory for its tree.
    pub(crate) async fn read<T>(&self, text: Bytes) -> Result<T, ReadError>
    where
        T: serde::de::DeserializeOwned + Send + 'static,
    {
        let mut held = self.held.lock().await;
        let bytes = held.bytes.saturating_add(estimate_tree(&text));
        held.reader.hold(bytes).await?;
        held.bytes = bytes;
        drop(held);
        let read = if text.len() <= LARGE {
            serde_json::from_slice(&text)
        } else {
            let turn = self.account.cpu_pool.turn(self.caller).await?;
            turn.run(move || serde_json::from_slice(&text)).await
        };
        read.map_err(|_| ReadError::Json)
    }
}

impl From<NoMemory> for ReadError {
    fn from(NoMemory: NoMemory) -> Self {
        Self::Busy
    }
}

impl From<ConcurrencyError> for ReadError {
    fn from(_: ConcurrencyError) -> Self {
        Self::Busy
    }
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
