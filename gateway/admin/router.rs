//! The operator's endpoints: `/healthz`, `/readyz`, `/metrics`.

use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use crate::{Health, State};

/// All of it, for a listener of its own.
pub fn router(health: Arc<impl Health>) -> Router {
    health_router(Arc::clone(&health)).merge(metrics_router(health))
}

/// `/healthz` (the process lives) and `/readyz` (its servers have settled), and 404 for what is not
/// there. Both show counts only.
pub fn health_router(health: Arc<impl Health>) -> Router {
    let alive = Arc::clone(&health);
    Router::new()
        .route("/healthz", get(move || async move { healthz(&*alive) }))
        .route("/readyz", get(move || async move { readyz(&*health) }))
        .fallback(async || answer_nothing())
}

/// To whoever asks for what is not there.
pub(crate) fn answer_nothing() -> Response {
    json_response(StatusCode::NOT_FOUND, r#"{"error":"not found"}"#.to_owned())
}

/// Who asks, as the composition root has found out.
#[derive(Clone, Copy, Debug)]
pub struct Asking {
    pub is_operator: bool,
    /// Of the organisation of whoever names none.
    pub is_of_default: bool,
}

/// `/metrics`, as Prometheus reads it. Names of servers and tools are in it for the operator alone;
/// to other organisations than the default one it would tell how busy the rest is.
/// Who asks comes as an extension; without one it is the operator's own
/// listener.
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
    match health.state() {
        State::Stopped => (StatusCode::SERVICE_UNAVAILABLE, "stopped\n").into_response(),
        _ => (StatusCode::OK, "ok\n").into_response(),
    }
}

fn readyz(health: &impl Health) -> Response {
    let connected = health.connected();
    let (status, state) = match (health.state(), health.missing()) {
        (State::Ready, Some(missing)) => (StatusCode::SERVICE_UNAVAILABLE, missing),
        (State::Ready, None) => (StatusCode::OK, State::Ready.as_str()),
        (other, _) => (StatusCode::SERVICE_UNAVAILABLE, other.as_str()),
    };
    let mut shown = serde_json::json!({
        "state": state,
        "connected": connected.to_string(),
        "servers": health.servers(),
    });
    // What is known goes on without the store, so losing it later changes nothing of the status.
    if let Some(stores) = health.stores() {
        shown["store"] = if stores { "ok" } else { "unavailable" }.into();
    }
    let without_keys = health.issuers_without_keys();
    if !without_keys.is_empty() {
        shown["issuersWithoutKeys"] = without_keys.into();
    }
    if let Some(shares) = health.shares_rates() {
        shown["rates"] = if shares { "shared" } else { "unavailable" }.into();
    }
    json_response(status, shown.to_string())
}

/// JSON that nobody may keep.
pub(crate) fn json_response(status: StatusCode, body: String) -> Response {
    let head = [(header::CONTENT_TYPE, "application/json"), (header::CACHE_CONTROL, "no-store")];
    (status, head, body).into_response()
}

#[cfg(test)]
mod tests;
