//! Audit records of requests to the API or the console that the caller is not permitted to make, as
//! for refusals of MCP requests.

use std::sync::Arc;

use axum::extract::{OriginalUri, Request, State};
use axum::middleware::Next;
use axum::response::Response;
use lockgate_authn::Principal;

use super::state::ApiState;

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
