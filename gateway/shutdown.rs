//! What ends the gateway from outside, and who may look inside while it runs.

use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::http::{StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use lockgate_authn::{Authenticator, Credentials, Peer};
use lockgate_config::Config;
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
pub(crate) fn guarded_metrics(app: &Arc<App>, config: &Config) -> Router {
    let authenticator = Arc::new(Authenticator::new(&config.authn));
    let guard = move |request: Request, next: Next| {
        let authenticator = Arc::clone(&authenticator);
        async move { guarded(&authenticator, request, next).await }
    };
    lockgate_admin::metrics_router(Arc::clone(app)).layer(middleware::from_fn(guard))
}

async fn guarded(authenticator: &Authenticator, request: Request, next: Next) -> Response {
    let bearer = request.headers().get(header::AUTHORIZATION).and_then(|v| v.to_str().ok());
    let bearer = bearer.and_then(|v| v.strip_prefix("Bearer ")).map(str::to_owned);
    let peer = request.extensions().get::<Remote>().map(|remote| Peer::Address(remote.0.ip()));
    let known = peer.is_some_and(|peer| authenticator.authenticate(&Credentials { peer, bearer }).is_ok());
    if known {
        next.run(request).await
    } else {
        (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, "Bearer")], "a bearer key is required\n").into_response()
    }
}
