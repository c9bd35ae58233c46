//! The table of all routes with their permissions, and the router made from it.

use std::sync::Arc;

use axum::Router;
use axum::extract::OriginalUri;
use axum::http::StatusCode;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::get;
use lockgate_admission::{Bounds, Charge, ConcurrencyLimit};
use lockgate_authn::Role;
use utoipa_axum::routes;

use super::access::{Permission, identify_caller};
use super::answer::count_answer;
use super::guard::check_request;
use super::journal::Journal;
use super::places::Places;
use super::probe::MAX_PROBES;
use super::problem::Problem;
use super::rejection::record_rejection;
use super::state::{ApiState, Operations};
use super::table::Table;
use super::{
    agent_servers, agents, approvals, assignments, audit, connections, document, events,
    integrations, keys, mcp, me, offers, organisations, pins, policies, recent, server_set,
    servers, sessions, settings, switch, tools, usage,
};
use crate::console::sessions::Sessions;
use lockgate_proxy::Gateway;

const USER: Permission = Permission::AtLeast(Role::User);
const ADMIN: Permission = Permission::AtLeast(Role::Admin);
const OPERATOR: Permission = Permission::AtLeast(Role::Operator);

/// Changes of the keys file run one at a time.
const KEY_TURNS: Bounds = Bounds { running: 1, waiting: 64 };

/// Concurrent searches of the audit trail, per organisation and in total; operators have the same
/// total.
const SEARCHES: (usize, usize) = (1, 2);

/// Concurrent reads of usage, per organisation and in total.
const USAGE_READS: (usize, usize) = (2, 3);

pub(crate) fn table() -> Table {
    let gateway = Table::new()
        .add(Permission::Public, routes!(document::show_page))
        .add(Permission::Public, routes!(document::show_document))
        .add(USER, routes!(me::show_me))
        .add(USER, routes!(servers::list_servers))
        .add(ADMIN, routes!(server_set::replace_servers))
        .add(USER, routes!(servers::show_server))
        .add(USER, routes!(recent::show_figures))
        .add(ADMIN, routes!(switch::connect_server))
        .add(ADMIN, routes!(switch::disconnect_server))
        .add(ADMIN, routes!(switch::toggle_server))
        .add(ADMIN, routes!(switch::reconnect_server))
        .add(USER, routes!(tools::list_tools))
        .add(USER, routes!(tools::show_tool))
        .add(USER, routes!(tools::execute_tool))
        .add(ADMIN, routes!(tools::reset_metrics))
        .add(USER, routes!(offers::list_prompts))
        .add(USER, routes!(offers::list_resources))
        .add(USER, routes!(mcp::call_method))
        .add(OPERATOR, routes!(policies::explain_decision))
        .add(OPERATOR, routes!(policies::test_cases))
        .add(ADMIN, routes!(keys::list_keys))
        .add(ADMIN, routes!(keys::create_key))
        .add(ADMIN, routes!(keys::revoke_key))
        .add(ADMIN, routes!(sessions::list_sessions))
        .add(ADMIN, routes!(sessions::end_session))
        .add(ADMIN, routes!(usage::show_usage))
        .add(ADMIN, routes!(audit::search_audit))
        .add(OPERATOR, routes!(audit::verify_audit))
        .add(USER, routes!(approvals::list_approvals))
        .add(USER, routes!(approvals::list_ended_approvals))
        .add(USER, routes!(approvals::show_approval))
        .add(USER, routes!(approvals::approve_call))
        .add(USER, routes!(approvals::deny_call))
        .add(ADMIN, routes!(pins::list_pins))
        .add(ADMIN, routes!(pins::list_pin_differences))
        .add(ADMIN, routes!(pins::approve_pins))
        .add(ADMIN, routes!(pins::reject_pins))
        .add(USER, routes!(connections::list_connections))
        .add(USER, routes!(connections::show_connection, connections::delete_connection))
        .add(USER, routes!(events::follow_events));
    add_organisations(gateway)
}

/// Adds the routes of objects that belong to organisations.
fn add_organisations(table: Table) -> Table {
    table
        .add(USER, routes!(integrations::list_integrations))
        .add(ADMIN, routes!(integrations::create_custom_integration))
        .add(USER, routes!(integrations::list_catalogue))
        .add(ADMIN, routes!(integrations::create_predefined_integration))
        .add(USER, routes!(integrations::show_integration))
        .add(USER, routes!(integrations::list_calls))
        .add(ADMIN, routes!(integrations::change_integration))
        .add(ADMIN, routes!(integrations::delete_integration))
        .add(ADMIN, routes!(integrations::enable_integration))
        .add(ADMIN, routes!(integrations::disable_integration))
        .add(ADMIN, routes!(integrations::validate_integration))
        .add(ADMIN, routes!(integrations::reconnect_integration))
        .add(ADMIN, routes!(integrations::check_mcp))
        .add(USER, routes!(agents::list_agents, agents::create_agent))
        .add(USER, routes!(agent_servers::list_agent_servers))
        .add(USER, routes!(agent_servers::show_agent_server, agent_servers::change_agent_server))
        .add(USER, routes!(agents::show_agent, agents::rename_agent, agents::delete_agent))
        .add(USER, routes!(assignments::list_assigned))
        .add(USER, routes!(assignments::list_available))
        .add(USER, routes!(assignments::assign_integration))
        .add(USER, routes!(assignments::unassign_integration))
        .add(OPERATOR, routes!(organisations::list_organisations))
        .add(OPERATOR, routes!(organisations::create_organisation))
        .add(OPERATOR, routes!(organisations::delete_organisation))
        .add(OPERATOR, routes!(settings::list_settings))
}

/// Builds the router from the table, and the state that its requests share.
pub(crate) fn make_router(
    gateway: Arc<Gateway>,
    operations: Arc<dyn Operations>,
    sessions: Arc<Sessions>,
) -> (Router, Arc<ApiState>) {
    let (routes, description, permissions) = table().into_parts();
    let document = document::write(&description, &permissions);
    let state = Arc::new(ApiState {
        gateway,
        operations,
        sessions,
        document,
        journal: Arc::new(Journal::new()),
        probes: Places::new(MAX_PROBES, usize::MAX),
        searches: Places::new(SEARCHES.0, SEARCHES.1),
        operator_searches: Places::new(SEARCHES.1, SEARCHES.1),
        usage_reads: Places::new(USAGE_READS.0, USAGE_READS.1),
        key_turns: ConcurrencyLimit::new(KEY_TURNS, Charge::Turns, None),
    });
    let routes = routes
        .fallback(answer_unknown)
        .method_not_allowed_fallback(answer_other_method)
        .layer(from_fn_with_state(Arc::clone(&state), identify_caller))
        .layer(from_fn(check_request))
        .layer(from_fn_with_state(Arc::clone(&state), record_rejection))
        .layer(from_fn_with_state(Arc::clone(&state), count_answer))
        .with_state(Arc::clone(&state));
    // The page is at `/api`, and at `/api/` as in the document.
    let page = get(document::show_page).fallback(answer_other_method);
    let page = Router::new().route("/api/", page).with_state(Arc::clone(&state));
    (page.nest("/api", routes), state)
}

async fn answer_unknown(OriginalUri(uri): OriginalUri) -> Problem {
    let path: String = uri.path().chars().take(128).collect();
    let detail = format!("there is nothing at {path}; GET /api/openapi.json lists all paths");
    Problem::new(StatusCode::NOT_FOUND, "NOT_FOUND", detail)
}

async fn answer_other_method() -> Problem {
    let detail = "this path has other methods; GET /api/openapi.json lists them";
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "METHOD_NOT_ALLOWED", detail)
}
