//! Errors as problem details (RFC 9457): a stable code, a sentence with the fix, and the location
//! of the error in the body.

use std::borrow::Cow;
use std::sync::Arc;

use axum::extract::{OriginalUri, Request, State};
use axum::http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use lockgate_authn::{DEFAULT_ORGANISATION, Principal};
use lockgate_registry::{Registry, RegistryError};
use serde_json::{Map, Value, json};

use super::state::ApiState;

const MEDIA_TYPE: &str = "application/problem+json";
/// The type of problems that are fully described by their code (RFC 9457, 4.2.1).
const BLANK: &str = "about:blank";

/// The code for requests about another organisation.
pub(crate) const ELSEWHERE: &str = "ORGANIZATION_NOT_FOUND";

pub(crate) type Result<T, E = Problem> = std::result::Result<T, E>;

/// An error of the API.
#[derive(Clone, Debug)]
pub struct Problem(Box<Parts>);

#[derive(Clone, Debug)]
struct Parts {
    status: StatusCode,
    code: &'static str,
    detail: Cow<'static, str>,
    /// The kind of failure, if a server failed.
    kind: Option<&'static str>,
    pointer: Option<String>,
    more: Map<String, Value>,
    retry_after: Option<u64>,
    /// `WWW-Authenticate` or `Allow`.
    header: Option<(HeaderName, HeaderValue)>,
}

impl Problem {
    pub fn new(
        status: StatusCode,
        code: &'static str,
        detail: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self(Box::new(Parts {
            status,
            code,
            detail: detail.into(),
            kind: None,
            pointer: None,
            more: Map::new(),
            retry_after: None,
            header: None,
        }))
    }

    /// Creates an error in the body, at a JSON Pointer such as `/name`; empty for the whole body.
    pub(crate) fn in_body(pointer: &str, detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "INVALID_BODY", detail).at(pointer)
    }

    /// Creates an error in the query.
    pub(crate) fn in_query(detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "INVALID_QUERY", detail)
    }

    /// Creates an error for a reached limit, with a retry delay in seconds.
    pub(crate) fn overloaded(detail: impl Into<Cow<'static, str>>, seconds: u64) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "OVERLOADED", detail).retry_after(seconds)
    }

    /// Sets the location of the error in the body.
    pub(crate) fn at(mut self, pointer: &str) -> Self {
        self.0.pointer = Some(pointer.to_owned());
        self
    }

    /// Moves the location of the error into a part of the body.
    pub(crate) fn within(mut self, part: &str) -> Self {
        let pointer = self.0.pointer.take().unwrap_or_default();
        self.0.pointer = Some(format!("{part}{pointer}"));
        self
    }

    /// Creates the same error for missing items and for items that are hidden from the caller.
    pub(crate) fn not_found(code: &'static str, what: &'static str) -> Self {
        Self::new(StatusCode::NOT_FOUND, code, what)
    }

    /// Sets the kind of server failure, for programs.
    pub(crate) fn of_kind(mut self, kind: &'static str) -> Self {
        self.0.kind = Some(kind);
        self
    }

    pub(crate) fn with(mut self, name: &str, value: Value) -> Self {
        self.0.more.insert(name.to_owned(), value);
        self
    }

    pub(crate) fn retry_after(mut self, seconds: u64) -> Self {
        self.0.retry_after = Some(seconds.max(1));
        self
    }

    pub(crate) fn challenge(mut self, challenge: Option<HeaderValue>) -> Self {
        self.0.header = challenge.map(|challenge| (WWW_AUTHENTICATE, challenge));
        self
    }

    /// Sets the permitted method.
    pub(crate) fn allow(mut self, method: &'static str) -> Self {
        self.0.header = Some((ALLOW, HeaderValue::from_static(method)));
        self
    }

    /// Returns whether the error concerns submitted input, so that a form is shown again with it.
    pub(crate) fn is_of_form(&self) -> bool {
        matches!(self.0.status.as_u16(), 400 | 409 | 412 | 422)
    }

    pub(crate) fn status(&self) -> StatusCode {
        self.0.status
    }

    pub(crate) fn code(&self) -> &'static str {
        self.0.code
    }

    /// Returns the location of the error in the body; empty for the whole body.
    pub(crate) fn pointer(&self) -> &str {
        self.0.pointer.as_deref().unwrap_or("")
    }

    /// Returns the reason for the audit record of a refusal.
    pub(crate) fn refusal(&self) -> Option<RefusedBecause> {
        let Parts { status, code, detail, .. } = &*self.0;
        let is_refusal = *status == StatusCode::FORBIDDEN || *code == ELSEWHERE;
        is_refusal.then(|| RefusedBecause(format!("{code}: {detail}").into()))
    }

    pub(crate) fn detail(&self) -> &str {
        &self.0.detail
    }

    pub(crate) fn kind(&self) -> Option<&'static str> {
        self.0.kind
    }

    /// Returns a member that was added by [`Self::with`].
    pub(crate) fn member(&self, name: &str) -> Option<&Value> {
        self.0.more.get(name)
    }

    pub(crate) fn members(&self) -> &Map<String, Value> {
        &self.0.more
    }

    pub(crate) fn without_members(mut self) -> Self {
        self.0.more.clear();
        self
    }

    /// Returns the retry delay in seconds.
    pub(crate) fn wait(&self) -> Option<u64> {
        self.0.retry_after
    }

    /// Adds the headers of the response.
    pub(crate) fn write_headers(&self, headers: &mut HeaderMap) {
        if let Some(seconds) = self.0.retry_after {
            headers.insert(RETRY_AFTER, seconds.into());
        }
        if let Some((name, value)) = &self.0.header {
            headers.insert(name, value.clone());
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let parts = &*self.0;
        let mut details = json!({
            "type": parts.kind.unwrap_or(BLANK),
            "title": parts.status.canonical_reason().unwrap_or("Error"),
            "status": parts.status.as_u16(),
            "code": parts.code,
            "detail": parts.detail,
        });
        if let Some(pointer) = &parts.pointer {
            // A JSON Pointer in the form of a fragment.
            details["errors"] = json!([{"pointer": format!("#{pointer}"), "detail": parts.detail}]);
        }
        for (name, value) in &parts.more {
            details[name] = value.clone();
        }
        let head = [(CONTENT_TYPE, MEDIA_TYPE), (CACHE_CONTROL, "no-store")];
        let mut response = (parts.status, head, details.to_string()).into_response();
        self.write_headers(response.headers_mut());
        if let Some(refusal) = self.refusal() {
            response.extensions_mut().insert(refusal);
        }
        response
    }
}

/// The reason for a refusal, for the audit record.
#[derive(Clone, Debug)]
pub(crate) struct RefusedBecause(pub(crate) Arc<str>);

/// Records refused requests in the audit trail.
pub(crate) async fn record_rejection(
    state: State<Arc<ApiState>>,
    request: Request,
    next: Next,
) -> Response {
    let principal = request.extensions().get::<Principal>().cloned();
    let method = request.method().clone();
    let uri = match request.extensions().get() {
        Some(OriginalUri(uri)) => uri.clone(),
        None => request.uri().clone(),
    };
    let response = next.run(request).await;
    if let Some(RefusedBecause(words)) = response.extensions().get() {
        let path = format!("{method} {}", uri.path());
        state.gateway.record_forbidden(words, principal.as_ref(), &path);
    }
    response
}

// Errors of the registry as problems of the API, with the API's names of members.

/// Retry delay while the store is unavailable, in seconds.
const RETRY_SECONDS: u64 = 2;

impl ApiState {
    /// Returns the registry. Fails if there is none, as in a gateway that serves a single client.
    pub(crate) fn registry(&self) -> Result<Arc<Registry>> {
        if let Some(registry) = self.operations.registry() {
            return Ok(registry);
        }
        let detail = "this gateway has no store: integrations and agents are not available here";
        Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "STORE_UNAVAILABLE", detail))
    }

    /// Returns whether an organisation was created, owns anything, or has a key.
    pub(crate) async fn knows_organisation(&self, name: &str) -> bool {
        if name == DEFAULT_ORGANISATION || self.has_keys(name) {
            return true;
        }
        let Some(registry) = self.operations.registry() else { return false };
        if registry.has_organisation(name) {
            return true;
        }
        // Another gateway may have created the organisation just now.
        registry.refresh().await.is_ok() && registry.has_organisation(name)
    }

    /// Returns whether a key that is not revoked names an organisation.
    pub(crate) fn has_keys(&self, organisation: &str) -> bool {
        let keys = self.operations.keys();
        let mut own = keys.iter().filter(|key| key.organisation.as_deref() == Some(organisation));
        own.any(|key| key.revoked.is_none())
    }
}

impl From<RegistryError> for Problem {
    fn from(error: RegistryError) -> Self {
        if let RegistryError::OfItem { at, error } = error {
            return Self::from(*error).within(&format!("/servers/{at}"));
        }
        let (status, code) = error.kind();
        let problem = Self::new(status, code, describe(&error));
        let problem = match error.pointer() {
            Some(pointer) => problem.at(name_member(pointer)),
            None => problem,
        };
        match error {
            RegistryError::StoreUnavailable(_) => problem.retry_after(RETRY_SECONDS),
            _ => problem,
        }
    }
}

/// Describes an error with the API's names, and without details for operators.
fn describe(error: &RegistryError) -> String {
    match error {
        RegistryError::InvalidField(field) => {
            let name = name_member(field.pointer).trim_start_matches('/');
            format!("`{name}` {}; {}", field.message, field.way_out)
        }
        RegistryError::StoreUnavailable(reason) => {
            tracing::warn!(%reason, "change failed: the store is not available");
            error.to_string()
        }
        other => other.to_string(),
    }
}

/// Converts the registry's name of a member to the API's.
pub(crate) fn name_member(pointer: &str) -> &str {
    match pointer {
        "/url" => "/serverUrl",
        "/auth" => "/authMethod",
        "/auth/header" => "/headerName",
        other => other,
    }
}
