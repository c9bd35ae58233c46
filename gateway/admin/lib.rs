//! HTTP endpoints for operators and applications: health, readiness, metrics, approvals, the API
//! and the console. Server names appear only in `metrics`, `approvals`, the API and the console,
//! which the composition root puts behind authentication.

mod api;
mod applications;
mod approvals;
mod config;
mod connect;
pub mod console;
mod fault;
mod router;
mod trpc;

use std::collections::BTreeMap;

pub use api::call::{Params, compose_request};
pub use api::change::SessionRecord;
pub use api::{
    AuditReport, Candidate, EffectiveSetting, FileChangeError, Offered, Operations, ProbeFailure,
    ProbeStage, Switch,
};
pub use applications::{Applications, HeldBody, answer_refusal, describe_rejection, is_public};
pub use approvals::{approvals_router, page_router};
use axum::http::HeaderMap;
use axum::http::header::{AsHeaderName, CONTENT_TYPE};
pub use config::{ApiConfig, ClientsAddress, Config, Connected, Ready, ScrapeToken, Webhook};
pub use connect::{ConnectPages, ask_for_key, connect_router, is_open_page};
pub use fault::Fault;
pub use router::{Asking, LifeCycle, LifeState, health_router, metrics_router, router};

/// The gateway's health, as shown to operators.
pub trait Health: Send + Sync + 'static {
    fn report(&self) -> HealthReport;
    /// Returns the metrics as Prometheus text; those of servers are for operators.
    fn metrics(&self, is_operator: bool) -> String;
}

/// The state of the gateway and its parts.
#[derive(Clone, Debug)]
pub struct HealthReport {
    pub state: LifeState,
    /// The number of connected servers, out of those in the configuration.
    pub connected: Connected,
    /// The readiness condition on connected servers.
    pub ready: Ready,
    /// The number of servers by state.
    pub servers: BTreeMap<&'static str, usize>,
    /// Whether the store is available; `None` if the gateway has no registry.
    pub stores: Option<bool>,
    /// Whether the store is required and has not been read since the start.
    pub lacks_store: bool,
    /// Whether earlier gateways of the same store use a secret that this one lacks.
    pub has_other_secret: bool,
    /// The issuers of tokens without keys.
    pub issuers_without_keys: Vec<String>,
    /// Whether rates are currently shared with other gateways; `None` if not configured.
    pub shares_rates: Option<bool>,
}

impl HealthReport {
    /// Returns the state that `/readyz` shows for an unmet requirement: the store or connected
    /// servers.
    pub fn missing(&self) -> Option<&'static str> {
        match self {
            Self { lacks_store: true, .. } => Some("waiting_for_store"),
            Self { has_other_secret: true, .. } => Some("other_secret"),
            _ => (!self.ready.is_met(self.connected)).then_some("waiting_for_servers"),
        }
    }
}

// Request headers as text.

/// Returns the value of a header; `None` if it is missing or not text.
pub(crate) fn read_header(headers: &HeaderMap, name: impl AsHeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok()
}

/// Returns the media type of a body without its parameters.
pub(crate) fn read_media_type(headers: &HeaderMap) -> Option<&str> {
    let given = read_header(headers, CONTENT_TYPE)?;
    match given.split_once(';') {
        Some((essence, _)) => Some(essence.trim()),
        None => Some(given.trim()),
    }
}

pub(crate) fn is_json(headers: &HeaderMap) -> bool {
    let essence = read_media_type(headers);
    matches!(essence, Some(essence) if essence.eq_ignore_ascii_case("application/json"))
}
