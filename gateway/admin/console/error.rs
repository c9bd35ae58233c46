//! Errors of pages. `layout` renders them with the frame of the page.

use askama::Template;
use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};

use super::shown::BoundedText;
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
}

impl PageError {
    /// Returns the error for a page without memory.
    pub(crate) fn busy() -> Self {
        let detail = "There is not enough memory for this page now (limits.bytes_in_flight). Try \
            again in a moment.";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "The gateway is busy", detail)
    }
}

impl IntoResponse for PageError {
    /// Returns an empty response with the error as an extension: `layout` renders the page.
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
