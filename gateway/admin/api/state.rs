//! What all requests of the API share, and what the API asks of the rest of the program.

use std::sync::Arc;

use axum::extract::State;
use lockgate_authn::key::Key;
use lockgate_proxy::Gateway;

use crate::config::ApiConfig;

/// What the API asks of the rest of the program.
pub trait Operations: Send + Sync + 'static {
    /// Who may do what, as the configuration has it now.
    fn settings(&self) -> Arc<ApiConfig>;

    /// The API keys that the configuration names.
    fn keys(&self) -> Vec<Key>;

    /// Ends the connection to a server of the configuration and connects anew. `false` where there
    /// is no such server.
    fn reconnect(&self, slug: &str) -> bool;
}

/// What all requests of the API share.
pub(crate) struct ApiState {
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) operations: Arc<dyn Operations>,
    pub(crate) document: Document,
}

/// What the API says of itself, written once.
pub(crate) struct Document {
    /// As OpenAPI.
    pub(crate) text: String,
    /// As a page for people.
    pub(crate) page: String,
}

pub(crate) type Shared = State<Arc<ApiState>>;
