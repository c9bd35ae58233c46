//! What ends the gateway from outside, and who may look inside while it runs.

use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::http::{StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use lockgate_authn::{Credentials, Peer};
use lockgate_listener::Remote;
use lockgate_proxy::Gateway;
use lockgate_proxy::face::Endpoint;
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
    let gateway = Arc::clone(&app.gateway);
    let guard = move |request: Request, next: Next| {
        let gateway = Arc::clone(&gateway);
        async move { guarded(&gateway, request, next).await }
    };
    lockgate_admin::metrics_router(Arc::clone(app)).layer(middleware::from_fn(guard))
}

async fn guarded(gateway: &Gateway, request: Request, next: Next) -> Response {
    let bearer = request.headers().get(header::AUTHORIZATION).and_then(|v| v.to_str().ok());
    let bearer = bearer.and_then(|v| v.strip_prefix("Bearer ")).map(str::to_owned);
    let known = match request.extensions().get::<Remote>().cloned() {
        None => false,
        Some(Remote { address, certificate }) => {
            let credentials = Credentials { peer: Peer::Address(address.ip()), bearer, certificate };
            gateway.identify(&Endpoint::All, &credentials).await.is_ok()
        }
    };
    if known {
        next.run(request).await
    } else {
        (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, "Bearer")], "credentials are required\n").into_response()
    }
}
