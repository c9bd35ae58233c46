//! Checks on every form before it changes anything: the form comes from a page of this origin, has
//! the visitor's token, and was not sent before.

use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::header::ORIGIN;
use axum::http::{HeaderMap, HeaderName, Method, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::error::PageError;
use super::fields::Fields;
use super::layout::ConsoleState;
use super::sent_forms::{FormKey, SentForms};
use super::sessions::Visitor;
use crate::api::table::is_of_other_origin;
use crate::read_media_type;

/// Maximum size of a form, in bytes.
const MAX_FORM: usize = 1 << 20;
/// Maximum number of fields of a form. Each takes more memory than its text.
const MAX_FIELDS: usize = 2048;

const SEC_FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Rejects forms that no page of the console sent, and stores the fields of accepted forms in the
/// request.
pub(crate) async fn check_form(
    State(state): State<Arc<ConsoleState>>,
    request: Request,
    next: Next,
) -> Response {
    if matches!(*request.method(), Method::GET | Method::HEAD) {
        let is_known = request.extensions().get::<Visitor>().is_some();
        if is_known && is_hidden_use(request.headers()) {
            let detail = "A page of another site requested this in the background. Open the \
                address in a new window.";
            let title = "The request was refused";
            return PageError::new(StatusCode::FORBIDDEN, title, detail).into_response();
        }
        return next.run(request).await;
    }
    let (request, key) = match read_form(&state, request).await {
        Ok(read) => read,
        Err(error) => return error.into_response(),
    };
    if !state.sent_forms.remember(key) {
        return refuse_again(request.uri().path()).into_response();
    }
    let unanswered = state.sent_forms.watch(key);
    let response = next.run(request).await;
    unanswered.disarm();
    // Nothing was changed: the page shows the form again, and may be reloaded.
    if !response.status().is_redirection() && response.status() != StatusCode::CREATED {
        state.sent_forms.forget(&key);
    }
    response
}

/// Returns the error for a form that was sent before.
fn refuse_again(path: &str) -> PageError {
    let detail = if path.ends_with("/keys/new") {
        "Nothing was done twice. Open the keys from the menu. A new key is shown only once: if you \
         did not copy it, revoke it and create another."
    } else {
        "Nothing was done twice. Open the page from the menu to see the result."
    };
    PageError::new(StatusCode::CONFLICT, "The form was already sent", detail)
}

/// Returns whether a page of this origin sent the request, according to the browser. Requests
/// without `Origin` and `Sec-Fetch-Site` are rejected.
pub(crate) fn is_of_own_page(uri: &Uri, headers: &HeaderMap) -> bool {
    let says = headers.contains_key(ORIGIN) || headers.contains_key(SEC_FETCH_SITE);
    let is_typed = matches!(headers.get(SEC_FETCH_SITE), Some(site) if site == "none");
    says && !is_typed && !is_of_other_origin(uri, headers)
}

/// Returns whether a page of another origin sent the request in the background. Such requests would
/// use the visitor's permits for streams and searches. Navigation is allowed.
fn is_hidden_use(headers: &HeaderMap) -> bool {
    let site = headers.get(SEC_FETCH_SITE);
    let is_elsewhere = matches!(site, Some(site) if site != "same-origin" && site != "none");
    let mode = headers.get(SEC_FETCH_MODE);
    is_elsewhere && matches!(mode, Some(mode) if mode != "navigate")
}

/// Returns whether the body is a form.
pub(crate) fn is_form(headers: &HeaderMap) -> bool {
    read_media_type(headers) == Some("application/x-www-form-urlencoded")
}

/// Returns whether a form has more fields than allowed, before memory is allocated for them.
fn has_too_many_fields(text: &[u8]) -> bool {
    text.iter().filter(|byte| **byte == b'&').count() >= MAX_FIELDS
}

async fn read_form(
    state: &ConsoleState,
    request: Request,
) -> Result<(Request, FormKey), PageError> {
    let (mut parts, body) = request.into_parts();
    if !is_of_own_page(&parts.uri, &parts.headers) {
        let detail = "Another site or a program sent this form. Nothing was changed.";
        return Err(PageError::new(StatusCode::FORBIDDEN, "The form was refused", detail));
    }
    let Some(visitor) = parts.extensions.get::<Visitor>() else {
        return Err(PageError::signed_out());
    };
    if !is_form(&parts.headers) {
        let detail = "The console accepts forms only. Programs use the API.";
        let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
        return Err(PageError::new(status, "The form was refused", detail));
    }
    let Ok(text) = to_bytes(body, MAX_FORM).await else {
        let detail = "A form may have at most 1 MiB. Nothing was changed.";
        return Err(PageError::new(StatusCode::PAYLOAD_TOO_LARGE, "The form is too large", detail));
    };
    if has_too_many_fields(&text) {
        let detail = "A form may have at most 2048 fields. Nothing was changed.";
        return Err(PageError::new(StatusCode::PAYLOAD_TOO_LARGE, "The form is too large", detail));
    }
    let fields = Fields::parse(&text);
    if !state.sessions.is_form_token(visitor, fields.get("token")) {
        let detail = "The form belongs to an earlier session. Go back, reload the page and send it \
            again. Nothing was changed.";
        return Err(PageError::new(StatusCode::FORBIDDEN, "The form has expired", detail));
    }
    parts.extensions.insert(fields);
    let key = SentForms::key_of(&parts.uri.to_string(), &text);
    Ok((Request::from_parts(parts, Body::empty()), key))
}

#[cfg(test)]
mod tests;
