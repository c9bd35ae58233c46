//! In-process client of the API. Pages call its routes as the visitor, so they share its
//! permissions, responses and audit records.

use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes, HttpBody, to_bytes};
use axum::extract::{FromRequestParts, Request};
use axum::http::header::{CONTENT_TYPE, HOST, HeaderName, IF_MATCH};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use lockgate_authn::Principal;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tower::ServiceExt;
use url::{Position, Url};

use super::error::{PageError, TOO_MUCH};
use super::page_account::{PageAccount, PageHold, ReadError};
use crate::api::call_messages::CallMessages;
use crate::fault::Fault;
pub(crate) use crate::fault::sentence;

/// Maximum size of a response that a page reads, in bytes.
const MAX_ANSWER: usize = 8 << 20;
/// Error code of a response above [`MAX_ANSWER`].
pub(crate) const TOO_LARGE: &str = "ANSWER_TOO_LARGE";
/// Request headers that the API reads.
const PASSED_ON: [HeaderName; 4] = [
    HOST,
    HeaderName::from_static("last-event-id"),
    HeaderName::from_static("traceparent"),
    HeaderName::from_static("tracestate"),
];

/// A client of the API for one visitor, stored in the extensions of the request.
#[derive(Clone)]
pub(crate) struct ApiClient {
    routes: Router,
    principal: Principal,
    headers: HeaderMap,
    hold: Arc<PageHold>,
    /// Receives the messages of calls.
    messages: Option<CallMessages>,
}

/// An error of the API.
#[derive(Clone, Debug)]
pub(crate) struct ApiError {
    pub(crate) status: StatusCode,
    pub(crate) detail: String,
    /// JSON pointer to the rejected part of the body, such as `/serverUrl`; empty for the whole
    /// body.
    pub(crate) pointer: String,
    /// The server stage that failed; empty if none did.
    pub(crate) stage: String,
    /// The error code; empty if there is none.
    pub(crate) code: String,
    /// The explained failure, if a server failed.
    pub(crate) fault: Option<Box<Fault>>,
}

/// A problem of the API (RFC 9457).
#[derive(Default, Deserialize)]
#[serde(default)]
struct Refusal {
    detail: String,
    code: String,
    stage: String,
    fault: Option<Box<Fault>>,
    errors: Vec<FieldRefusal>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct FieldRefusal {
    pointer: String,
    detail: String,
}

/// A page of a list returned by the API.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct List<T> {
    #[serde(default = "Vec::new")]
    pub(crate) items: Vec<T>,
    #[serde(default)]
    pub(crate) total: usize,
    #[serde(default)]
    pub(crate) next_cursor: Option<String>,
}

impl<T> List<T> {
    pub(crate) fn empty() -> Self {
        Self { items: Vec::new(), total: 0, next_cursor: None }
    }
}

/// A path with a query, percent-encoded where necessary.
#[derive(Clone, Debug)]
pub(crate) struct ApiPath(Url);

impl ApiPath {
    /// Creates a path from unencoded segments.
    pub(crate) fn new(segments: &[&str]) -> Result<Self, ApiError> {
        let Ok(mut url) = Url::parse("http://api.internal/") else { return Err(unreadable()) };
        match url.path_segments_mut() {
            Ok(mut path) => {
                path.pop_if_empty().extend(segments);
            }
            Err(()) => return Err(unreadable()),
        }
        Ok(Self(url))
    }

    /// Appends a query parameter, unless `value` is empty.
    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        if !value.is_empty() {
            self.0.query_pairs_mut().append_pair(name, value);
        }
        self
    }

    /// Returns a link to a page of `organisation`, which may be empty, or `otherwise` if the
    /// segments do not form a path.
    pub(crate) fn link(segments: &[&str], organisation: &str, otherwise: &str) -> String {
        match Self::new(segments) {
            Ok(path) => path.with("organisation", organisation).as_str().to_owned(),
            Err(_) => otherwise.to_owned(),
        }
    }

    /// Returns the path and query, for use as a link.
    pub(crate) fn as_str(&self) -> &str {
        &self.0[Position::BeforePath..]
    }
}

impl ApiClient {
    pub(crate) fn new(
        routes: Router,
        principal: Principal,
        sent: &HeaderMap,
        account: &PageAccount,
    ) -> Self {
        let mut headers = HeaderMap::new();
        for name in PASSED_ON {
            if let Some(value) = sent.get(&name) {
                headers.insert(name, value.clone());
            }
        }
        let hold = Arc::new(account.begin(principal.caller_id()));
        Self { routes, principal, headers, hold, messages: None }
    }

    /// Returns the value at a path.
    pub(crate) async fn get<T>(&self, path: &ApiPath) -> Result<T, ApiError>
    where
        T: DeserializeOwned + Send + 'static,
    {
        let answer = self.send(Method::GET, path, None, None).await?;
        Ok(self.hold.read(answer).await?)
    }

    /// Sends a change. `version` is the expected version of the changed object, if any.
    pub(crate) async fn change(
        &self,
        method: Method,
        path: &ApiPath,
        body: Option<&Value>,
        version: Option<&str>,
    ) -> Result<Bytes, ApiError> {
        self.send(method, path, body, version).await
    }

    /// Posts a body and returns the parsed response.
    pub(crate) async fn ask<T>(&self, path: &ApiPath, body: &Value) -> Result<T, ApiError>
    where
        T: DeserializeOwned + Send + 'static,
    {
        let answer = self.send(Method::POST, path, Some(body), None).await?;
        Ok(self.hold.read(answer).await?)
    }

    /// Returns a client whose calls send their messages to the reader.
    pub(crate) fn with_messages(self, messages: CallMessages) -> Self {
        Self { messages: Some(messages), ..self }
    }

    /// Returns the response as a stream, such as events.
    pub(crate) async fn open(&self, path: &ApiPath) -> axum::response::Response {
        match self.request(Method::GET, path, None, None) {
            Ok(request) => {
                let Ok(answer) = self.routes.clone().oneshot(request).await;
                answer
            }
            Err(error) => axum::response::IntoResponse::into_response(PageError::from(error)),
        }
    }

    async fn send(
        &self,
        method: Method,
        path: &ApiPath,
        body: Option<&Value>,
        version: Option<&str>,
    ) -> Result<Bytes, ApiError> {
        let request = self.request(method, path, body, version)?;
        let Ok(answer) = self.routes.clone().oneshot(request).await;
        let status = answer.status();
        if answer.body().size_hint().lower() > MAX_ANSWER as u64 {
            return Err(too_large(path));
        }
        let Ok(text) = to_bytes(answer.into_body(), MAX_ANSWER).await else {
            return Err(unreadable());
        };
        if status.is_success() { Ok(text) } else { Err(ApiError::read(status, &text)) }
    }

    fn request(
        &self,
        method: Method,
        path: &ApiPath,
        body: Option<&Value>,
        version: Option<&str>,
    ) -> Result<Request, ApiError> {
        let content = match body {
            Some(body) => Body::from(body.to_string()),
            None => Body::empty(),
        };
        let request = Request::builder().method(method).uri(path.as_str()).body(content);
        let Ok(mut request) = request else { return Err(unreadable()) };
        *request.headers_mut() = self.headers.clone();
        if body.is_some() {
            let json = HeaderValue::from_static("application/json");
            request.headers_mut().insert(CONTENT_TYPE, json);
        }
        if let Some(version) = version {
            let tag = HeaderValue::from_str(&format!("\"{version}\""));
            let Ok(tag) = tag else { return Err(unreadable()) };
            request.headers_mut().insert(IF_MATCH, tag);
        }
        request.extensions_mut().insert(self.principal.clone());
        if let Some(messages) = &self.messages {
            request.extensions_mut().insert(messages.clone());
        }
        Ok(request)
    }
}

impl ApiError {
    fn new(status: StatusCode, code: &str, detail: String) -> Self {
        let code = code.to_owned();
        Self { status, detail, pointer: String::new(), stage: String::new(), code, fault: None }
    }

    fn read(status: StatusCode, text: &[u8]) -> Self {
        let refusal: Refusal = serde_json::from_slice(text).unwrap_or_default();
        let mut error = Self {
            status,
            detail: refusal.detail,
            pointer: String::new(),
            stage: refusal.stage,
            code: refusal.code,
            fault: refusal.fault,
        };
        if let Some(first) = refusal.errors.into_iter().next() {
            first.pointer.trim_start_matches('#').clone_into(&mut error.pointer);
            if !first.detail.is_empty() {
                error.detail = first.detail;
            }
        }
        if error.detail.is_empty() {
            error.detail = format!("the gateway answered with status {status}");
        }
        error
    }

    /// Returns whether the error concerns the submitted input, so that the form is shown again with
    /// it.
    pub(crate) fn is_of_form(&self) -> bool {
        matches!(self.status.as_u16(), 400 | 409 | 412 | 422)
    }
}

fn unreadable() -> ApiError {
    let detail =
        "the page cannot read an answer of the gateway; the log of the gateway has the cause";
    ApiError::new(StatusCode::BAD_GATEWAY, "", detail.into())
}

fn too_large(path: &ApiPath) -> ApiError {
    let detail = format!(
        "the answer is larger than 8 MiB: filter the list, or use the API at {}",
        path.as_str()
    );
    ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, TOO_LARGE, detail)
}

impl From<ReadError> for ApiError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Json => unreadable(),
            ReadError::Busy => {
                let detail = PageError::busy().detail;
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "OVERLOADED", detail)
            }
        }
    }
}

impl From<ApiError> for PageError {
    fn from(error: ApiError) -> Self {
        let title = match error.status {
            _ if error.code == TOO_LARGE => TOO_MUCH,
            StatusCode::NOT_FOUND => "Not found",
            StatusCode::FORBIDDEN => "Access denied",
            StatusCode::UNAUTHORIZED => "You are signed out",
            StatusCode::CONFLICT | StatusCode::PRECONDITION_FAILED => "It changed in the meantime",
            StatusCode::TOO_MANY_REQUESTS => "Too many requests",
            StatusCode::SERVICE_UNAVAILABLE => "The gateway is busy",
            status if status.is_client_error() => "The request is not valid",
            _ => "The gateway failed",
        };
        let detail = match error.status {
            // The detail of the API refers to its own lists, which do not help visitors.
            StatusCode::NOT_FOUND => "It was removed or renamed, or you may not see it.".into(),
            _ => sentence(&error.detail),
        };
        Self::new(error.status, title, detail)
    }
}

impl<S: Sync> FromRequestParts<S> for ApiClient {
    type Rejection = PageError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, PageError> {
        match parts.extensions.get::<Self>() {
            Some(client) => Ok(client.clone()),
            None => Err(PageError::signed_out()),
        }
    }
}
