//! Methods of MCP for clients that post bare parameters and expect the bare result.

use axum::extract::Path;
use axum::http::StatusCode;
use lockgate_protocol::method::Method;
use lockgate_protocol::revision::Era;

use super::access::{By, User};
use super::body::Body;
use super::call::{CallOrigin, CallResult, Params, call};
#[cfg(test)]
use super::conditions::OrganisationQuery;
use super::problem::Problem;

/// Calls a method of MCP, such as `tools/call`, `resources/read` or `prompts/get`.
///
/// The body contains the parameters, and the response the result, as defined by the revision
/// 2026-07-28. Names are those of `/mcp`.
#[cfg_attr(test, utoipa::path(
    post,
    path = "/mcp/{*method}",
    tag = "mcp",
    params(
        ("method" = String, Path, description = "Such as `tools/call`"),
        OrganisationQuery,
    ),
    request_body(content = Object, description = "The parameters, without `_meta`"),
    responses((status = 200, body = Object), (status = 404, description = "No such method"))
))]
pub(crate) async fn call_method(
    By { state, caller, .. }: By<User>,
    Path(method): Path<String>,
    origin: CallOrigin,
    Body(params): Body<Params>,
) -> Result<CallResult, Problem> {
    let known = Method::parse(&method);
    let is_request = known.exists_in(Era::Modern) && known.as_str() == method;
    if !is_request || known == Method::Listen || method.starts_with("notifications/") {
        let detail = "there is no such method here; for changes use GET /api/events";
        return Err(Problem::new(StatusCode::NOT_FOUND, "METHOD_NOT_FOUND", detail));
    }
    if params.contains_key("_meta") {
        return Err(Problem::in_body("/_meta", "omit it: the gateway sets its own"));
    }
    call(&state, &caller, &origin, known, params).await
}
