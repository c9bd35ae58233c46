//! tRPC 11 at `/trpc`, for applications that use its client: the procedures of `procedures`, in the
//! formats of its links, through the request path of MCP. Callers are authenticated beforehand.
//! There is no transformer: values are plain JSON.

mod answer;
mod endpoint;
mod input;
mod run;
mod subscription;

use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::request::Parts;
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get};

use crate::api::access::identify_caller;
use crate::api::state::ApiState;
use crate::api::table::describe_refusal;

/// TypeScript types of the procedures, equal for all gateways of this version.
const TYPES: &str = include_str!("trpc/lockgate.d.ts");
pub(crate) const TYPES_PATH: &str = "/trpc/lockgate.d.ts";

/// Creates the router of all paths below `/trpc`, for requests that carry their caller as an
/// extension.
pub(crate) fn make_router(state: Arc<ApiState>) -> Router {
    Router::new()
        .route(TYPES_PATH, get(show_types))
        .route("/trpc", any(endpoint::answer))
        .route("/trpc/", any(endpoint::answer))
        .route("/trpc/{*path}", any(endpoint::answer))
        .layer(from_fn_with_state(Arc::clone(&state), identify_caller))
        .with_state(state)
}

async fn show_types() -> impl IntoResponse {
    let head = [(CONTENT_TYPE, "text/plain; charset=utf-8"), (CACHE_CONTROL, "no-cache")];
    (head, TYPES)
}

/// Returns whether a path belongs to tRPC.
pub(crate) fn is_path(path: &str) -> bool {
    path == "/trpc" || path.starts_with("/trpc/")
}

/// Converts a refusal by authentication or the body limits to the format of tRPC's clients.
pub(crate) fn answer_refusal(parts: &Parts, answer: &axum::http::Response<Bytes>) -> Response {
    endpoint::refuse_all(parts, &describe_refusal(answer))
}

#[cfg(test)]
mod tests;
