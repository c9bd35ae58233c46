//! The table of all routes, each with what it asks of its caller, and the router made of it.

use std::sync::Arc;

use axum::Router;
use axum::extract::OriginalUri;
use axum::http::StatusCode;
use axum::middleware::{from_fn, from_fn_with_state};
use utoipa_axum::routes;

use super::access::{Permission, Role, identify_caller};
use super::guard::check_request;
use super::problem::Problem;
use super::state::{ApiState, Operations};
use super::table::Table;
use super::{document, events, keys, mcp, pins, policies, servers, tools};
use lockgate_proxy::Gateway;

const USER: Permission = Permission::AtLeast(Role::User);
const ADMIN: Permission = Permission::AtLeast(Role::Admin);
const OPERATOR: Permission = Permission::AtLeast(Role::Operator);

/// Every route below `/api`.
pub(crate) fn table() -> Table {
    Table::new()
        .add(Permission::Public, routes!(document::show_page))
        .add(Permission::Public, routes!(document::show_document))
        .add(USER, routes!(servers::list_servers))
        .add(USER, routes!(servers::show_server))
        .add(OPERATOR, routes!(servers::reconnect_server))
        .add(USER, routes!(tools::list_tools))
        .add(USER, routes!(tools::show_tool))
        .add(USER, routes!(tools::execute_tool))
        .add(USER, routes!(mcp::call_method))
        .add(OPERATOR, routes!(policies::explain_decision))
        .add(OPERATOR, routes!(policies::test_cases))
        .add(ADMIN, routes!(keys::list_keys))
        .add(OPERATOR, routes!(pins::list_pins))
        .add(USER, routes!(events::follow_events))
}

/// The table as a router.
pub(crate) fn make_router(gateway: Arc<Gateway>, operations: Arc<dyn Operations>) -> Router {
    let (routes, description, permissions) = table().into_parts();
    let document = document::write(&description, &permissions);
    let state = Arc::new(ApiState { gateway, operations, document });
    let routes = routes
        .fallback(answer_unknown)
        .method_not_allowed_fallback(answer_other_method)
        .layer(from_fn_with_state(Arc::clone(&state), identify_caller))
        .layer(from_fn(check_request))
        .with_state(state);
    Router::new().nest("/api", routes)
}

async fn answer_unknown(OriginalUri(uri): OriginalUri) -> Problem {
    let path: String = uri.path().chars().take(128).collect();
    let detail = format!("there is nothing at {path}; GET /api/openapi.json says what there is");
    Problem::new(StatusCode::NOT_FOUND, "NOT_FOUND", detail)
}

async fn answer_other_method() -> Problem {
    let detail = "this path has other methods; GET /api/openapi.json says which";
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "METHOD_NOT_ALLOWED", detail)
}
