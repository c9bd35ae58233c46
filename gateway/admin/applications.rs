//! The interfaces of applications, REST below `/api` and tRPC below `/trpc`, and the console on the
//! same operations: created once for all listeners. Also formats the refusals of earlier layers for
//! both interfaces.

use std::any::Any;
use std::sync::Arc;

use axum::Router;
use axum::body::{Bytes, to_bytes};
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use lockgate_proxy::Gateway;

use crate::api::state::ApiState;
use crate::api::table::describe_refusal;
use crate::console::{Attempts, Sessions, console_router};
use crate::{api, trpc};

/// Maximum size of the response to a refused request, in bytes.
const MAX_REFUSAL: usize = 1 << 20;

/// A request's share of the budget of bytes in flight. Handlers that still use the body after the
/// head of the response must keep it.
#[derive(Clone)]
pub struct HeldBody(pub Arc<dyn Any + Send + Sync>);

/// The routers of the application interfaces, and the state that they share.
pub struct Applications {
    api: Router,
    state: Arc<ApiState>,
    sessions: Arc<Sessions>,
    attempts: Arc<Attempts>,
}

impl Applications {
    /// Creates the routers and their state; `None` if the system has no random bytes.
    pub fn new(gateway: Arc<Gateway>, operations: Arc<dyn api::Operations>) -> Option<Self> {
        let sessions = Arc::new(Sessions::new()?);
        let (api, state) = api::make_router(gateway, operations, Arc::clone(&sessions));
        Some(Self { api, state, sessions, attempts: Arc::new(Attempts::new()?) })
    }

    /// Returns the router of REST and tRPC, for requests that carry their caller as an extension,
    /// unless [`is_public`].
    pub fn router(&self) -> Router {
        self.api.clone().merge(trpc::make_router(Arc::clone(&self.state)))
    }

    /// Returns the router of the console, for requests that carry their visitor and principal as
    /// extensions, unless [`crate::console::is_public`].
    pub fn console(&self) -> Router {
        console_router(Arc::clone(&self.state), Arc::clone(&self.sessions))
    }

    /// Returns the open console sessions.
    pub fn sessions(&self) -> Arc<Sessions> {
        Arc::clone(&self.sessions)
    }

    /// Returns the pending sign-ins at identity providers.
    pub fn attempts(&self) -> Arc<Attempts> {
        Arc::clone(&self.attempts)
    }
}

/// Returns whether a path needs no authentication: it describes the interfaces, not this gateway.
pub fn is_public(path: &str) -> bool {
    api::is_public(path) || path == trpc::TYPES_PATH
}

/// Converts a refusal by authentication or the body limits to the format of the requested
/// interface.
pub fn answer_refusal(parts: &Parts, answer: &axum::http::Response<Bytes>) -> Response {
    if trpc::is_path(parts.uri.path()) {
        return trpc::answer_refusal(parts, answer);
    }
    describe_refusal(answer).into_response()
}

/// Converts a refusal by the listener to the format of the requested interface. Returns it
/// unchanged if the path belongs to neither the API nor tRPC.
pub async fn describe_rejection(
    parts: &Parts,
    answer: axum::http::Response<Bytes>,
) -> axum::http::Response<Bytes> {
    let path = parts.uri.path();
    let is_api = path == "/api" || path.starts_with("/api/");
    if !is_api && !trpc::is_path(path) {
        return answer;
    }
    let (head, body) = answer_refusal(parts, &answer).into_parts();
    match to_bytes(body, MAX_REFUSAL).await {
        Ok(text) => axum::http::Response::from_parts(head, text),
        Err(_) => answer,
    }
}
