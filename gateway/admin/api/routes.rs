//! The table of all routes with their permissions, and the router made from it.

use std::sync::Arc;

use axum::Router;
use axum::extract::OriginalUri;
use axum::http::StatusCode;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{get, on};
use lockgate_admission::{Bounds, Charge, ConcurrencyLimit};
use lockgate_authn::Role;
use serde_json::Value;

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

const PUBLIC: Permission = Permission::Public;
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

/// Defines the table of operations, and for tests the description that `openapi.json` contains.
macro_rules! operations {
    ($($permission:ident $module:ident::$name:ident,)+) => {
        pub(crate) fn table(document: &Value) -> Table {
            Table::new(document)
                $(.add($permission, stringify!($name), |method| on(method, $module::$name)))+
        }

        #[cfg(test)]
        pub(crate) fn describe() -> (utoipa::openapi::OpenApi, Vec<(&'static str, Permission)>) {
            let router = utoipa_axum::router::OpenApiRouter::<Arc<ApiState>>::new()
                $(.routes(utoipa_axum::routes!($module::$name)))+;
            let permissions = vec![$((stringify!($name), $permission)),+];
            (router.into_openapi(), permissions)
        }
    };
}

operations! {
    PUBLIC document::show_page,
    PUBLIC document::show_document,
    USER me::show_me,
    USER servers::list_servers,
    ADMIN server_set::replace_servers,
    USER servers::show_server,
    USER recent::show_figures,
    ADMIN switch::connect_server,
    ADMIN switch::disconnect_server,
    ADMIN switch::toggle_server,
    ADMIN switch::reconnect_server,
    USER tools::list_tools,
    USER tools::show_tool,
    USER tools::execute_tool,
    ADMIN tools::reset_metrics,
    USER offers::list_prompts,
    USER offers::list_resources,
    USER mcp::call_method,
    OPERATOR policies::explain_decision,
    OPERATOR policies::test_cases,
    ADMIN keys::list_keys,
    ADMIN keys::create_key,
    ADMIN keys::revoke_key,
    ADMIN sessions::list_sessions,
    ADMIN sessions::end_session,
    ADMIN usage::show_usage,
    ADMIN audit::search_audit,
    OPERATOR audit::verify_audit,
    USER approvals::list_approvals,
    USER approvals::list_ended_approvals,
    USER approvals::show_approval,
    USER approvals::approve_call,
    USER approvals::deny_call,
    ADMIN pins::list_pins,
    ADMIN pins::list_pin_differences,
    ADMIN pins::approve_pins,
    ADMIN pins::reject_pins,
    USER connections::list_connections,
    USER connections::show_connection,
    USER connections::delete_connection,
    USER events::follow_events,
    USER integrations::list_integrations,
    ADMIN integrations::create_custom_integration,
    USER integrations::list_catalogue,
    ADMIN integrations::create_predefined_integration,
    USER integrations::show_integration,
    USER integrations::list_calls,
    ADMIN integrations::change_integration,
    ADMIN integrations::delete_integration,
    ADMIN integrations::enable_integration,
    ADMIN integrations::disable_integration,
    ADMIN integrations::validate_integration,
    ADMIN integrations::reconnect_integration,
    ADMIN integrations::check_mcp,
    USER agents::list_agents,
    USER agents::create_agent,
    USER agent_servers::list_agent_servers,
    USER agent_servers::show_agent_server,
    USER agent_servers::change_agent_server,
    USER agents::show_agent,
    USER agents::change_agent,
    USER agents::delete_agent,
    USER assignments::list_assigned,
    USER assignments::list_available,
    USER assignments::assign_integration,
    USER assignments::unassign_integration,
    OPERATOR organisations::list_organisations,
    OPERATOR organisations::create_organisation,
    OPERATOR organisations::delete_organisation,
    OPERATOR settings::list_settings,
}

/// Builds the router from the table, and the state that its requests share.
pub(crate) fn make_router(
    gateway: Arc<Gateway>,
    operations: Arc<dyn Operations>,
    sessions: Arc<Sessions>,
) -> (Router, Arc<ApiState>) {
    let document = document::read();
    let routes = table(&document).into_router();
    let document = document::write(document);
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
