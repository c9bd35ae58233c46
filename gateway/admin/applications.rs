//! What applications speak, REST below `/api` and tRPC below `/trpc`, and the console that stands
//! on the same routes: made once, however many listeners serve them. And how those who do not get
//! that far are answered in either.

use std::any::Any;
use std::sync::Arc;

use axum::Router;
use axum::body::{Bytes, to_bytes};
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use lockgate_proxy::Gateway;

use crate::api::guard::describe_refusal;
use crate::api::state::ApiState;
use crate::console::{Attempts, NoRandomness, Sessions, console_router};
use crate::{api, trpc};

/// Longest answer to a request that was refused, in bytes.
const MAX_REFUSAL: usize = 1 << 20;

/// What a request's body takes of the account of bytes in flight. Who goes on with the body behind
/// its answer's head keeps this.
#[derive(Clone)]
pub struct HeldBody(pub Arc<dyn Any + Send + Sync>);

/// See the module.
pub struct Applications {
    api: Router,
    state: Arc<ApiState>,
    sessions: Arc<Sessions>,
    attempts: Arc<Attempts>,
}

impl Applications {
    /// # Errors
    /// [`NoRandomness`].
    pub fn new(
        gateway: Arc<Gateway>,
        operations: Arc<dyn api::Operations>,
    ) -> Result<Self, NoRandomness> {
        let sessions = Arc::new(Sessions::new()?);
        let (api, state) = api::make_router(gateway, operations, Arc::clone(&sessions));
        Ok(Self { api, state, sessions, attempts: Arc::new(Attempts::new()?) })
    }

    /// Every route for applications, for requests that carry their caller as an extension, unless
    /// [`is_public`].
    pub fn router(&self) -> Router {
        self.api.clone().merge(trpc::make_router(Arc::clone(&self.state)))
    }

    /// The console, for requests that carry their visitor and principal as extensions, unless
    /// [`crate::console::is_public`].
    pub fn console(&self) -> Router {
        console_router(self.api.clone(), Arc::clone(&self.state), Arc::clone(&self.sessions))
    }

    /// Who is signed in.
    #[must_use]
    pub fn sessions(&self) -> Arc<Sessions> {
        Arc::clone(&self.sessions)
    }

    /// Who is about to sign in at an identity provider.
    #[must_use]
    pub fn attempts(&self) -> Arc<Attempts> {
        Arc::clone(&self.attempts)
    }
}

/// Whether anybody may ask for a path: it shows what there is to call, and nothing of this gateway.
#[must_use]
pub fn is_public(path: &str) -> bool {
    api::is_public(path) || path == trpc::TYPES_PATH
}

/// The answer to somebody who was not let in, or whose body was not taken, in the form of what was
/// asked for.
#[must_use]
pub fn answer_refusal(parts: &Parts, answer: &axum::http::Response<Bytes>) -> Response {
    if trpc::is_path(parts.uri.path()) {
        return trpc::answer_refusal(parts, answer);
    }
    describe_refusal(answer).into_response()
}

/// The answer to a request that the listener refused, in the form of what was asked for; unchanged
/// where that is neither the API nor tRPC.
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
