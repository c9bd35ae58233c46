//! The routes of operations: a route cannot be added without its permission. Parameters are those
//! of the OpenAPI document. Unsupported parameters are rejected before anything is done, because
//! the client relies on their effect.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::Request;
use axum::http::header::{HOST, ORIGIN, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, HeaderName, Method, Response, StatusCode, Uri};
use axum::middleware::{Next, from_fn};
use axum::response::IntoResponse;
use axum::routing::MethodRouter;
use axum::{Extension, Router};
use lockgate_text::json;
use serde_json::Value;

use super::access::{Caller, Permission, check_permission};
use super::problem::{Problem, Result};
use super::state::ApiState;
use crate::read_header;

pub(crate) struct Table {
    router: Router<Arc<ApiState>>,
    /// By `operationId`.
    accepted: BTreeMap<String, Accepted>,
}

impl Table {
    pub(crate) fn new(document: &Value) -> Self {
        let items = document["paths"].as_object().into_iter().flat_map(|paths| paths.values());
        let operations = items.filter_map(Value::as_object).flat_map(|item| item.values());
        let accepted = operations.map(|operation| {
            let id = operation["operationId"].as_str().unwrap_or_default();
            (id.to_owned(), Accepted::new(operation))
        });
        Self { router: Router::new(), accepted: accepted.collect() }
    }

    /// Adds an operation. One that the document does not describe has no parameters.
    pub(crate) fn add(
        mut self,
        permission: Permission,
        id: &str,
        path: &str,
        handler: MethodRouter<Arc<ApiState>>,
    ) -> Self {
        let accepted = Arc::new(self.accepted.remove(id).unwrap_or_default());
        let require =
            from_fn(move |caller: Option<Extension<Arc<Caller>>>, request: Request, next: Next| {
                let accepted = Arc::clone(&accepted);
                async move {
                    let caller = caller.as_ref().map(|Extension(caller)| &**caller);
                    let permitted = check_permission(permission, caller);
                    match permitted.and_then(|()| accepted.check(&request)) {
                        Ok(()) => next.run(request).await,
                        Err(problem) => problem.into_response(),
                    }
                }
            });
        self.router = self.router.route(path, handler.route_layer(require));
        self
    }

    pub(crate) fn into_router(self) -> Router<Arc<ApiState>> {
        self.router
    }
}

/// Headers that make a change conditional.
const CONDITIONS: [&str; 4] =
    ["if-match", "if-none-match", "if-unmodified-since", "idempotency-key"];
/// Limit on an unknown name in an error message, in characters.
const MAX_SHOWN: usize = 64;

/// The parameters of an operation.
#[derive(Clone, Debug, Default)]
pub(crate) struct Accepted {
    /// The longest value of each, in characters.
    query: BTreeMap<String, Option<u64>>,
    /// In lower case.
    headers: BTreeSet<String>,
}

impl Accepted {
    /// Reads the parameters from the description of an operation.
    pub(crate) fn new(described: &Value) -> Self {
        let mut accepted = Self::default();
        let Some(Value::Array(parameters)) = described.get("parameters") else { return accepted };
        for parameter in parameters {
            let Some(Value::String(name)) = parameter.get("name") else { continue };
            let Some(Value::String(place)) = parameter.get("in") else { continue };
            if place == "query" {
                let longest = parameter["schema"]["maxLength"].as_u64();
                accepted.query.insert(name.clone(), longest);
            } else if place == "header" {
                accepted.headers.insert(name.to_ascii_lowercase());
            }
        }
        accepted
    }

    /// Rejects parameters and conditions that the operation does not support.
    pub(crate) fn check(&self, request: &Request) -> Result<()> {
        let query = request.uri().query().unwrap_or("");
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            let Some(longest) = self.query.get(&*name) else {
                return Err(refuse_parameter(&name));
            };
            if let &Some(longest) = longest
                && value.chars().count() as u64 > longest
            {
                let detail = format!("`{name}`: must not have more than {longest} characters");
                return Err(Problem::in_query(detail));
            }
        }
        if matches!(*request.method(), Method::GET | Method::HEAD) {
            return Ok(());
        }
        for name in CONDITIONS {
            if request.headers().contains_key(name) && !self.headers.contains(name) {
                let detail = format!(
                    "`{name}`: this operation does not support this header, so nothing was done; \
                     send the request without it"
                );
                return Err(Problem::new(StatusCode::BAD_REQUEST, "INVALID_HEADER", detail));
            }
        }
        Ok(())
    }
}

fn refuse_parameter(name: &str) -> Problem {
    let name: String = name.chars().take(MAX_SHOWN).collect();
    let detail = format!(
        "`{name}`: this operation has no such parameter, so nothing was done; GET \
         /api/openapi.json lists its parameters"
    );
    Problem::in_query(detail)
}

// Checks of every request of the API before its route: the length of the URL, and that the
// sender is not a web page of another origin.

/// Limit on path and query, in bytes.
const MAX_URL: usize = 8 * 1024;

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Rejects requests that are too long or come from a page of another origin.
pub(crate) async fn check_request(request: Request, next: Next) -> axum::response::Response {
    if request.uri().to_string().len() > MAX_URL {
        let detail = "the path and the query together exceed 8192 bytes";
        return Problem::new(StatusCode::URI_TOO_LONG, "URL_TOO_LONG", detail).into_response();
    }
    if is_of_other_origin(request.uri(), request.headers()) {
        return cross_origin().into_response();
    }
    next.run(request).await
}

fn cross_origin() -> Problem {
    let detail = "web pages of other origins may not use the API: call it from a program";
    Problem::new(StatusCode::FORBIDDEN, "CROSS_ORIGIN", detail)
}

/// Returns whether a browser reports a page of another origin as the sender. Other programs send no
/// such headers.
pub(crate) fn is_of_other_origin(uri: &Uri, headers: &HeaderMap) -> bool {
    if let Some(site) = headers.get(SEC_FETCH_SITE)
        && site != "same-origin"
        && site != "none"
    {
        return true;
    }
    let Some(origin) = headers.get(ORIGIN) else { return false };
    let Ok(origin) = origin.to_str() else { return true };
    let Some((_, authority)) = origin.split_once("://") else { return true };
    let own = uri.authority().map_or_else(|| read_header(headers, HOST), |own| Some(own.as_str()));
    !matches!(own, Some(own) if own.eq_ignore_ascii_case(authority))
}

/// Converts a refusal by the listener or the request path to a problem.
pub(crate) fn describe_refusal(answer: &Response<Bytes>) -> Problem {
    let error: Value = json::from_slice(answer.body()).unwrap_or(Value::Null);
    if matches!(error.pointer("/error/data/reason"), Some(reason) if reason == "origin") {
        return cross_origin();
    }
    let detail = match error.pointer("/error/message") {
        Some(Value::String(message)) => message.clone(),
        _ => "the request was refused".to_owned(),
    };
    let status = answer.status();
    let code = match status {
        StatusCode::UNAUTHORIZED => "UNAUTHENTICATED",
        StatusCode::FORBIDDEN => "FORBIDDEN",
        StatusCode::PAYLOAD_TOO_LARGE => "BODY_TOO_LARGE",
        StatusCode::REQUEST_TIMEOUT => "BODY_TOO_SLOW",
        StatusCode::SERVICE_UNAVAILABLE => "OVERLOADED",
        _ => "INVALID_REQUEST",
    };
    let challenge = answer.headers().get(WWW_AUTHENTICATE).cloned();
    let mut problem = Problem::new(status, code, detail).challenge(challenge);
    if let Some(wait) = read_header(answer.headers(), RETRY_AFTER)
        && let Ok(seconds) = wait.parse()
    {
        problem = problem.retry_after(seconds);
    }
    problem
}

#[cfg(test)]
mod tests;
