//! Checks of every request of the API before its route: the length of the URL, and that the sender
//! is not a web page of another origin. There are no cookies and no CORS.

use axum::body::Bytes;
use axum::extract::Request;
use axum::http::header::{HOST, ORIGIN, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, HeaderName, Response, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::IntoResponse;
use serde_json::Value;

use super::problem::Problem;
use crate::read_header;

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
    let error: Value = serde_json::from_slice(answer.body()).unwrap_or(Value::Null);
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
