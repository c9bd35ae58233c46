//! Pages as responses, and their errors, which `visit` renders with the frame of the page. Output
//! is bounded, also that of untrusted text and JSON on pages. Truncated text is marked.

use std::{fmt, io};

use askama::Template;
use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use crate::api::problem::RefusedBecause;

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
    let mut text = BoundedText::new(MAX_PAGE);
    let written = page.render_into(&mut text);
    if text.is_cut() {
        let detail = "This page would be larger than 4 MiB. Filter the list, or use the API.";
        return Err(PageError::new(StatusCode::PAYLOAD_TOO_LARGE, TOO_MUCH, detail));
    }
    written.map_err(|error| {
        tracing::error!(%error, "a page of the console cannot be written");
        let detail = "The gateway could not write this page. Its log has the cause.";
        PageError::new(StatusCode::INTERNAL_SERVER_ERROR, "The page failed", detail)
    })?;
    let text = text.into_text();
    let head = [(CONTENT_TYPE, "text/html; charset=utf-8"), (CACHE_CONTROL, "no-store")];
    Ok((status, head, text).into_response())
}

/// Renders a page with status 200.
pub(crate) fn show(page: &impl Template) -> PageResult {
    render(StatusCode::OK, page)
}

/// Maximum size of one text or value on a page, in bytes.
pub(crate) const MOST_SHOWN: usize = 256 << 10;
/// The mark of truncated text.
pub(crate) const REST: &str = "\n… the rest is in the API's answer";

/// Returns a text, truncated to the limit of a page.
pub(crate) fn show_text(text: &str) -> String {
    let mut shown = BoundedText::new(MOST_SHOWN);
    // The only error is a full buffer, which the excerpt marks.
    let _ = fmt::Write::write_str(&mut shown, text);
    shown.into_excerpt()
}

/// Returns a value as indented JSON, truncated to the limit of a page.
pub(crate) fn show_json(value: &impl Serialize) -> String {
    let mut shown = BoundedText::new(MOST_SHOWN);
    // The only error is a full buffer: a value that was parsed from JSON can be serialized.
    let _ = serde_json::to_writer_pretty(&mut shown, value);
    shown.into_excerpt()
}

/// A buffer that rejects text beyond its limit.
pub(crate) struct BoundedText {
    bytes: Vec<u8>,
    most: usize,
    is_cut: bool,
}

impl BoundedText {
    pub(crate) fn new(most: usize) -> Self {
        Self { bytes: Vec::new(), most, is_cut: false }
    }

    /// Returns whether text was rejected.
    pub(crate) fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Returns the accepted text, up to the last complete character.
    pub(crate) fn into_text(self) -> String {
        String::from_utf8(self.bytes).unwrap_or_else(|error| {
            let whole = error.utf8_error().valid_up_to();
            let mut bytes = error.into_bytes();
            bytes.truncate(whole);
            String::from_utf8(bytes).unwrap_or_default()
        })
    }

    fn into_excerpt(self) -> String {
        let is_cut = self.is_cut;
        let mut text = self.into_text();
        if is_cut {
            text.push_str(REST);
        }
        text
    }

    fn take(&mut self, more: &[u8]) -> bool {
        let room = self.most - self.bytes.len();
        self.bytes.extend_from_slice(&more[..more.len().min(room)]);
        self.is_cut |= more.len() > room;
        !self.is_cut
    }
}

impl io::Write for BoundedText {
    fn write(&mut self, more: &[u8]) -> io::Result<usize> {
        if self.take(more) { Ok(more.len()) } else { Err(io::ErrorKind::FileTooLarge.into()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl fmt::Write for BoundedText {
    fn write_str(&mut self, more: &str) -> fmt::Result {
        if self.take(more.as_bytes()) { Ok(()) } else { Err(fmt::Error) }
    }
}

#[cfg(test)]
mod tests;
