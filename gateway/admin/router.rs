//! The operator's endpoints, `/healthz`, `/readyz` and `/metrics`, and the life cycle of the
//! process: initializing → ready → shutting_down → stopped. It never goes back.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use axum::Router;
use axum::extract::Request;
use axum::handler::Handler;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use crate::Health;

/// The `reason` of a gateway with a different secret.
const OTHER_SECRET: &str = "another gateway of this store uses a `secret` that this one does not \
    have: set the same one, or add the other one to `old_secrets`";

/// Creates the router of all endpoints, for a separate listener.
pub fn router(health: Arc<impl Health>) -> Router {
    health_router(Arc::clone(&health)).merge(metrics_router(health))
}

/// Creates the router of `/healthz` (the process is alive), `/readyz` (its servers have settled)
/// and a 404 fallback. Server names are not shown.
pub fn health_router(health: Arc<impl Health>) -> Router {
    let alive = Arc::clone(&health);
    Router::new()
        .route("/healthz", get(move || async move { healthz(&*alive) }))
        .route("/readyz", get(move || async move { readyz(&*health) }))
        .fallback(async || answer_nothing())
}

/// Returns the response for unknown paths.
pub(crate) fn answer_nothing() -> Response {
    json_response(StatusCode::NOT_FOUND, r#"{"error":"not found"}"#.to_owned())
}

/// The caller of `/metrics`, as determined by the composition root.
#[derive(Clone, Copy, Debug)]
pub struct Asking {
    pub is_operator: bool,
    /// The caller is a member of the default organisation.
    pub is_of_default: bool,
}

/// Creates the router of `/metrics`, in Prometheus format. Names of servers and tools are included
/// for operators only. Members of organisations other than the default are rejected, because totals
/// would reveal the activity of others. The caller is a request extension; a request without one
/// has come through the operator's own listener or with a scrape token.
pub fn metrics_router(health: Arc<impl Health>) -> Router {
    Router::new().route(
        "/metrics",
        get(move |request: Request| async move {
            match request.extensions().get::<Asking>() {
                None | Some(Asking { is_operator: true, .. }) => metrics(&*health, true),
                Some(Asking { is_of_default: true, .. }) => metrics(&*health, false),
                Some(_) => (StatusCode::FORBIDDEN, "metrics are for operators\n").into_response(),
            }
        }),
    )
}

fn metrics(health: &impl Health, is_operator: bool) -> Response {
    let head = [
        (header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    (head, health.metrics(is_operator)).into_response()
}

fn healthz(health: &impl Health) -> Response {
    match health.report().state {
        LifeState::Stopped => (StatusCode::SERVICE_UNAVAILABLE, "stopped\n").into_response(),
        _ => (StatusCode::OK, "ok\n").into_response(),
    }
}

fn readyz(health: &impl Health) -> Response {
    let health = health.report();
    let (status, state) = match (health.state, health.missing()) {
        (LifeState::Ready, Some(missing)) => (StatusCode::SERVICE_UNAVAILABLE, missing),
        (LifeState::Ready, None) => (StatusCode::OK, LifeState::Ready.as_str()),
        (other, _) => (StatusCode::SERVICE_UNAVAILABLE, other.as_str()),
    };
    let mut shown = serde_json::json!({
        "state": state,
        "connected": health.connected.to_string(),
        "servers": health.servers,
    });
    if health.has_other_secret {
        shown["reason"] = OTHER_SECRET.into();
    }
    // The status does not depend on a store that is lost later: loaded state is still served.
    if let Some(stores) = health.stores {
        shown["store"] = if stores { "ok" } else { "unavailable" }.into();
    }
    if !health.issuers_without_keys.is_empty() {
        shown["issuersWithoutKeys"] = health.issuers_without_keys.into();
    }
    if let Some(shares) = health.shares_rates {
        shown["rates"] = if shares { "shared" } else { "unavailable" }.into();
    }
    json_response(status, shown.to_string())
}

/// Returns a JSON response that must not be cached.
pub(crate) fn json_response(status: StatusCode, body: String) -> Response {
    let head = [(header::CONTENT_TYPE, "application/json"), (header::CACHE_CONTROL, "no-store")];
    (status, head, body).into_response()
}

// Handlers of a single type.

pub(crate) type ResponseFuture = Pin<Box<dyn Future<Output = Response> + Send>>;

/// Any handler that is a function.
pub(crate) struct AnyHandler<S>(Arc<dyn Fn(Request, S) -> ResponseFuture + Send + Sync>);

impl<S> AnyHandler<S> {
    pub(crate) fn new<H, T>(handler: H) -> Self
    where
        H: Handler<T, S, Future = ResponseFuture>,
    {
        Self(Arc::new(move |request, state| handler.clone().call(request, state)))
    }
}

impl<S> Clone for AnyHandler<S> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<S: 'static> Handler<(), S> for AnyHandler<S> {
    type Future = ResponseFuture;

    fn call(self, request: Request, state: S) -> ResponseFuture {
        (self.0)(request, state)
    }
}

lockgate_text::words! {
    /// A state in the life cycle of the process.
    #[derive(PartialOrd, Ord)]
    #[repr(u8)]
    pub enum LifeState {
        /// Servers are connecting; requests are already answered.
        Initializing = "initializing",
        Ready = "ready",
        /// Nothing new is accepted; running requests may finish.
        ShuttingDown = "shutting_down",
        Stopped = "stopped",
    }
}

/// The current [`LifeState`], shared between threads.
#[derive(Debug, Default)]
pub struct LifeCycle(AtomicU8);

impl LifeCycle {
    pub fn state(&self) -> LifeState {
        let at = usize::from(self.0.load(Ordering::Acquire));
        LifeState::ALL.get(at).copied().unwrap_or(LifeState::Stopped)
    }

    /// Enters a state, unless a later one has been entered.
    pub fn reach(&self, state: LifeState) {
        self.0.fetch_max(state as u8, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests;
