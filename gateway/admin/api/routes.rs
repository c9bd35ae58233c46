//! The table of all routes with their permissions, and the router made from it.

use std::sync::Arc;

use axum::Router;
use axum::extract::OriginalUri;
use axum::http::StatusCode;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::get;
use lockgate_admission::{Bounds, Charge, ConcurrencyLimit};
use lockgate_proxy::Gateway;
use serde_json::Value;

#[cfg(test)]
use super::access::LeastRole;
use super::access::{Admin, Operator, Permission, User, identify_caller, permission_of};
use super::answer::count_answer;
use super::integrations::{imported, input, validate};
use super::journal::Journal;
use super::problem::{Problem, record_rejection};
use super::state::{ApiState, MAX_PROBES, Operations, Places};
use super::table::{Table, check_request};
use super::{
    agent_servers, agents, approvals, audit, call, connections, document, events, integrations,
    keys, me, offers, organisations, pins, policies, server_set, servers, sessions, switch, tools,
    usage,
};
use crate::console::sessions::Sessions;
use crate::router::AnyHandler;

/// Changes of the keys file run one at a time.
const KEY_TURNS: Bounds = Bounds { running: 1, waiting: 64 };

/// Concurrent searches of the audit trail, per organisation and in total; operators have the same
/// total.
const SEARCHES: (usize, usize) = (1, 2);

/// Concurrent reads of usage, per organisation and in total.
const USAGE_READS: (usize, usize) = (2, 3);

/// Defines the table of operations, and for tests the description that `openapi.json` contains.
macro_rules! operations {
    (public: $($public:ident),+; $($role:ident $module:ident::$name:ident,)+) => {
        pub(crate) fn table(document: &Value) -> Table {
            Table::new(document)
                $(.add(
                    Permission::Public,
                    stringify!($public),
                    AnyHandler::new(document::$public),
                ))+
                $(.add(
                    permission_of::<$role, _>($module::$name),
                    stringify!($name),
                    AnyHandler::new($module::$name),
                ))+
        }

        #[cfg(test)]
        pub(crate) fn describe() -> (utoipa::openapi::OpenApi, Vec<(&'static str, Permission)>) {
            let router = utoipa_axum::router::OpenApiRouter::<Arc<ApiState>>::new()
                $(.routes(utoipa_axum::routes!(document::$public)))+
                $(.routes(utoipa_axum::routes!($module::$name)))+;
            let mut permissions = vec![$((stringify!($public), Permission::Public)),+];
            permissions.extend([
                $((stringify!($name), Permission::AtLeast(<$role as LeastRole>::ROLE))),+
            ]);
            (router.into_openapi(), permissions)
        }
    };
}

operations! {
    public: show_page, show_document;
    User me::show_me,
    User servers::list_servers,
    Admin server_set::replace_servers,
    User servers::show_server,
    User servers::show_figures,
    Admin switch::connect_server,
    Admin switch::disconnect_server,
    Admin switch::toggle_server,
    Admin switch::reconnect_server,
    User tools::list_tools,
    User tools::show_tool,
    User tools::execute_tool,
    Admin tools::reset_metrics,
    User offers::list_prompts,
    User offers::list_resources,
    User call::call_method,
    Operator policies::explain_decision,
    Operator policies::test_cases,
    Admin keys::list_keys,
    Admin keys::create_key,
    Admin keys::revoke_key,
    Admin sessions::list_sessions,
    Admin sessions::end_session,
    Admin usage::show_usage,
    Admin audit::search_audit,
    Operator audit::verify_audit,
    User approvals::list_approvals,
    User approvals::list_ended_approvals,
    User approvals::show_approval,
    User approvals::approve_call,
    User approvals::deny_call,
    Admin pins::list_pins,
    Admin pins::list_pin_differences,
    Admin pins::approve_pins,
    Admin pins::reject_pins,
    User connections::list_connections,
    User connections::show_connection,
    User connections::delete_connection,
    User events::follow_events,
    User integrations::list_integrations,
    Admin integrations::create_custom_integration,
    User input::list_catalogue,
    Admin input::create_predefined_integration,
    Admin imported::show_registry_server,
    Admin imported::create_registry_integration,
    User integrations::show_integration,
    User input::list_calls,
    Admin integrations::change_integration,
    Admin integrations::delete_integration,
    Admin integrations::enable_integration,
    Admin integrations::disable_integration,
    Admin validate::validate_integration,
    Admin integrations::reconnect_integration,
    Admin validate::check_mcp,
    User agents::list_agents,
    User agents::create_agent,
    User agent_servers::list_agent_servers,
    User agent_servers::show_agent_server,
    User agent_servers::change_agent_server,
    User agents::show_agent,
    User agents::change_agent,
    User agents::delete_agent,
    User agent_servers::list_assigned,
    User agent_servers::list_available,
    User agent_servers::assign_integration,
    User agent_servers::unassign_integration,
    Operator organisations::list_organisations,
    Operator organisations::create_organisation,
    Operator organisations::delete_organisation,
    Operator me::list_settings,
}

/// Creates the router of the API, and the state that it shares with tRPC and the console. Requests
/// carry their caller as an extension, unless [`super::is_public`].
pub(crate) fn make_router(
    gateway: Arc<Gateway>,
    operations: Arc<dyn Operations>,
    sessions: Arc<Sessions>,
) -> (Router, Arc<ApiState>) {
    let routes = table(&document::read()).into_router();
    let state = Arc::new(ApiState {
        gateway,
        operations,
        sessions,
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
