//! What ends the gateway from outside, and who may look inside while it runs.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use lockgate_listener::Remote;
use tokio::signal::unix::{SignalKind, signal as listen};

use crate::app::App;

/// Waits for SIGTERM or SIGINT.
pub(crate) async fn signal() {
    match (listen(SignalKind::terminate()), listen(SignalKind::interrupt())) {
        (Ok(mut terminate), Ok(mut interrupt)) => {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
        }
        _ => {
            let _ = tokio::signal::ctrl_c().await;
        }
    }
}

/// `/metrics` beside MCP: for whoever may call tools, because names of tools are in it.
pub(crate) fn guarded_metrics(app: &Arc<App>) -> Router {
    let receive = Arc::clone(app);
    let guard = move |request: Request, next: Next| {
        let receive = Arc::clone(&receive);
        async move { guarded(&receive, request, next).await }
    };
    lockgate_admin::metrics_router(Arc::clone(app)).layer(middleware::from_fn(guard))
}

async fn guarded(app: &App, mut request: Request, next: Next) -> Response {
    let Some(remote) = request.extensions().get::<Remote>().cloned() else {
        return StatusCode::UNAUTHORIZED.into_response();
    };
    match remote.admit(app, request.headers_mut()).await {
        Ok(()) => next.run(request).await,
        Err(answer) => answer.map(Body::from),
    }
}
