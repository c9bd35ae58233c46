//! Pages as responses, and their errors, which `visit` renders with the frame of the page. Output
//! is bounded, also that of untrusted text and JSON on pages. Truncated text is marked. Pages count
//! in the budget of bytes in flight: the result of a call before it is parsed, and a rendered page
//! until its last byte is sent.

use std::borrow::Cow;
use std::sync::Arc;
use std::{fmt, io};

use askama::Template;
use axum::body::{Body, Bytes, HttpBody, to_bytes};
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use lockgate_admission::budget::Budget;
use lockgate_admission::reader::{NoMemory, Reader};
use lockgate_admission::{CallerId, CpuPool};
use lockgate_proxy::Gateway;
use lockgate_text::json;
use serde::Serialize;
use serde_json::Value;

use super::assets::{accepts_gzip, compress};
use super::sessions::Visitor;
use crate::api::answer::estimate_tree;
use crate::api::problem::{Problem, RefusedBecause};
use crate::fault::sentence;

/// Maximum size of a page, in bytes; such a page renders within milliseconds.
const MAX_PAGE: usize = 4 << 20;
pub(crate) const TOO_MUCH: &str = "Too large for a page";

#[derive(Clone, Debug)]
pub(crate) struct PageError {
    pub(crate) status: StatusCode,
    pub(crate) title: String,
    /// The cause and the fix.
    pub(crate) detail: String,
    /// The reason for an audit record, if the API refused the visitor.
    pub(crate) refusal: Option<RefusedBecause>,
}

/// The result of a page handler.
pub(crate) type PageResult = Result<Response, PageError>;

impl PageError {
    pub(crate) fn new(
        status: StatusCode,
        title: impl Into<String>,
        detail: impl Into<String>,
    ) -> Self {
        Self { status, title: title.into(), detail: detail.into(), refusal: None }
    }

    pub(crate) fn signed_out() -> Self {
        let detail = "Sign in to see this page.";
        Self::new(StatusCode::UNAUTHORIZED, "You are signed out", detail)
    }

    pub(crate) fn not_found(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "Page not found", detail)
    }

    /// Returns the error for a page without memory.
    pub(crate) fn busy() -> Self {
        let detail = "There is not enough memory for this page now (limits.bytes_in_flight). Try \
            again in a moment.";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "The gateway is busy", detail)
    }
}

impl From<Problem> for PageError {
    fn from(problem: Problem) -> Self {
        if problem.status() == StatusCode::UNAUTHORIZED {
            return Self::signed_out();
        }
        let title = match problem.status() {
            _ if problem.code() == TOO_LARGE => TOO_MUCH,
            StatusCode::NOT_FOUND => "Not found",
            StatusCode::FORBIDDEN => "Access denied",
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

impl IntoResponse for PageError {
    /// Returns an empty response with the error as an extension: `visit` renders the page.
    fn into_response(self) -> Response {
        let mut response = self.status.into_response();
        if let Some(refusal) = &self.refusal {
            response.extensions_mut().insert(refusal.clone());
        }
        response.extensions_mut().insert(self);
        response
    }
}

/// Renders a page that browsers do not cache.
pub(crate) fn render(status: StatusCode, page: &impl Template) -> PageResult {
    let mut page_text = BoundedText::new(MAX_PAGE);
    let written = page.render_into(&mut page_text);
    let BoundedText { text, is_cut, .. } = page_text;
    if is_cut {
        let detail = "This page would be larger than 4 MiB. Filter the list, or use the API.";
        return Err(PageError::new(StatusCode::PAYLOAD_TOO_LARGE, TOO_MUCH, detail));
    }
    written.map_err(|error| {
        tracing::error!(%error, "a page of the console cannot be written");
        let detail = "The gateway could not write this page. Its log has the cause.";
        PageError::new(StatusCode::INTERNAL_SERVER_ERROR, "The page failed", detail)
    })?;
    let head = [(CONTENT_TYPE, "text/html; charset=utf-8"), (CACHE_CONTROL, "no-store")];
    Ok((status, head, text).into_response())
}

/// Maximum size of one text or value on a page, in bytes.
pub(crate) const MOST_SHOWN: usize = 256 << 10;
/// The mark of truncated text.
pub(crate) const REST: &str = "\n… the rest is in the API's answer";

/// Returns a text, truncated to the limit of a page.
pub(crate) fn show_text(text: &str) -> String {
    let shown = &text[..text.floor_char_boundary(MOST_SHOWN)];
    if shown.len() == text.len() { shown.to_owned() } else { format!("{shown}{REST}") }
}

/// Returns a value as indented JSON, truncated to the limit of a page.
pub(crate) fn show_json(value: &impl Serialize) -> String {
    let mut shown = BoundedText::new(MOST_SHOWN);
    // The only error is a full buffer: a value that was parsed from JSON can be serialized.
    let _ = serde_json::to_writer_pretty(&mut shown, value);
    let BoundedText { text, is_cut, .. } = shown;
    if is_cut { text + REST } else { text }
}

/// Returns a member of a value; empty if it is not a text.
pub(crate) fn text_of<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or("")
}

/// Returns a text as it is, and other values as JSON.
pub(crate) fn plain_text(value: &Value) -> Cow<'_, str> {
    match value {
        Value::String(text) => text.into(),
        other => other.to_string().into(),
    }
}

/// Returns a number with its noun, such as `1 tool`.
pub(crate) fn count(number: usize, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

/// A buffer that rejects text beyond its limit.
struct BoundedText {
    text: String,
    most: usize,
    /// Text was rejected.
    is_cut: bool,
}

impl BoundedText {
    fn new(most: usize) -> Self {
        Self { text: String::new(), most, is_cut: false }
    }
}

impl fmt::Write for BoundedText {
    fn write_str(&mut self, more: &str) -> fmt::Result {
        let accepted = more.floor_char_boundary(self.most - self.text.len());
        self.text.push_str(&more[..accepted]);
        self.is_cut |= accepted < more.len();
        if self.is_cut { Err(fmt::Error) } else { Ok(()) }
    }
}

impl io::Write for BoundedText {
    /// Writes a whole fragment, as a JSON serializer does.
    fn write(&mut self, more: &[u8]) -> io::Result<usize> {
        let fragment = std::str::from_utf8(more).map_err(io::Error::other)?;
        fmt::Write::write_str(self, fragment).map_err(io::Error::other)?;
        Ok(more.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
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
        // A new key is shown only once.
        Err(NoMemory) if parts.status == StatusCode::CREATED => {
            Response::from_parts(parts, Body::from(text))
        }
        Err(NoMemory) => PageError::busy().into_response(),
    }
}

#[cfg(test)]
mod tests;
