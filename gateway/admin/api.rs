//! The REST API under `/api`, for applications, operators and the console. One table (`routes`) has
//! the words, the permission and the path of every operation, and is the source of the OpenAPI
//! document. Callers are authenticated beforehand; calls use the request path of MCP.

pub(crate) mod access;
pub(crate) mod agent_servers;
pub(crate) mod agents;
pub(crate) mod answer;
pub(crate) mod approvals;
pub(crate) mod audit;
pub(crate) mod body;
pub(crate) mod call;
pub(crate) mod change;
pub(crate) mod connections;
pub(crate) mod document;
pub(crate) mod events;
pub(crate) mod figures;
pub(crate) mod integrations;
mod journal;
pub(crate) mod keys;
pub(crate) mod me;
pub(crate) mod operation;
pub(crate) mod organisations;
pub(crate) mod page;
mod payloads;
pub(crate) mod pins;
pub(crate) mod policies;
pub(crate) mod problem;
pub(crate) mod routes;
pub(crate) mod servers;
pub(crate) mod sessions;
pub(crate) mod state;
pub(crate) mod table;
pub(crate) mod tools;
pub(crate) mod usage;

use std::sync::Arc;

use access::identify_caller;
use answer::count_answer;
use axum::Router;
use axum::extract::OriginalUri;
use axum::http::StatusCode;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::get;
use journal::Journal;
use lockgate_admission::{Bounds, Charge, ConcurrencyLimit};
use lockgate_proxy::Gateway;
use problem::{Problem, record_rejection};
use state::{ApiState, MAX_PROBES, Places};
use table::check_request;
use tokio::sync::Semaphore;

use crate::console::sessions::Sessions;

pub use state::{
    AuditReport, Candidate, EffectiveSetting, FileChangeError, Offered, Operations, ProbeFailure,
    ProbeStage, Switch,
};

/// Changes of the keys file run one at a time.
const KEY_TURNS: Bounds = Bounds { running: 1, waiting: 64 };

/// Concurrent searches of the audit trail, per organisation and in total; operators have the same
/// total.
const SEARCHES: (usize, usize) = (1, 2);

/// Concurrent reads of usage, per organisation and in total.
const USAGE_READS: (usize, usize) = (2, 3);

/// Creates the router of the API, and the state that it shares with tRPC and the console. Requests
/// carry their caller as an extension, unless [`is_public`].
pub(crate) fn make_router(
    gateway: Arc<Gateway>,
    operations: Arc<dyn Operations>,
    sessions: Arc<Sessions>,
) -> (Router, Arc<ApiState>) {
    let routes = routes::route_all(&document::read());
    let state = Arc::new(ApiState {
        gateway,
        operations,
        sessions,
        journal: Arc::new(Journal::new()),
        probes: Places::new(MAX_PROBES, Semaphore::MAX_PERMITS),
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

/// Returns whether a path needs no authentication: it describes the API, not this gateway.
pub(crate) fn is_public(path: &str) -> bool {
    matches!(path, "/api" | "/api/" | "/api/openapi.json")
}

#[cfg(test)]
mod tests;
