//! The REST API under `/api`, for applications, operators and the console. One table (`routes`) has
//! the permission of every route and is the source of the OpenAPI document. Callers are
//! authenticated beforehand; calls use the request path of MCP.

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
pub(crate) mod offers;
pub(crate) mod operation;
pub(crate) mod organisations;
pub(crate) mod page;
pub(crate) mod pins;
pub(crate) mod policies;
pub(crate) mod problem;
pub(crate) mod routes;
mod server_set;
pub(crate) mod servers;
pub(crate) mod sessions;
pub(crate) mod state;
pub(crate) mod switch;
pub(crate) mod table;
pub(crate) mod tools;
pub(crate) mod usage;

pub(crate) use routes::make_router;
pub use state::{
    ApprovedPin, AuditReport, Candidate, EffectiveSetting, FileChangeError, KeyChange, Offered,
    Operations, ProbeFailure, ProbeStage, Switch,
};

/// Returns whether a path needs no authentication: it describes the API, not this gateway.
pub(crate) fn is_public(path: &str) -> bool {
    matches!(path, "/api" | "/api/" | "/api/openapi.json")
}

#[cfg(test)]
mod tests;
