//! The fixture over Streamable HTTP, on loopback names only: other `Host` and `Origin` values are
//! refused. A tool may close its own response stream in the middle of a call (`StreamCloser`).

use std::{net::SocketAddr, sync::Arc, time::Duration};

use anyhow::Context as _;
use axum::{
    Router,
    body::Body,
    extract::Request,
    middleware::{self, Next},
    response::Response,
};
use futures_util::StreamExt as _;
use rmcp::transport::streamable_http_server::{
    StreamableHttpServerConfig, StreamableHttpService, session::local::LocalSessionManager,
};
use tokio::{net::TcpListener, task::JoinHandle};
use tokio_util::sync::CancellationToken;

use crate::fixture::Fixture;

const RETRY: Duration = Duration::from_millis(200);

/// Travels with the HTTP request; cancelling it ends the response body.
#[derive(Clone, Default)]
pub(crate) struct StreamCloser(pub(crate) CancellationToken);

/// A fixture that is being served. Dropping it leaves the server running; `stop` ends it.
pub struct HttpFixture {
    address: SocketAddr,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl HttpFixture {
    /// The MCP endpoint.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// Ends every session and the listener.
    pub async fn stop(self) {
        self.stop.cancel();
        let abort = self.task.abort_handle();
        if tokio::time::timeout(Duration::from_secs(2), self.task).await.is_err() {
            abort.abort();
        }
    }
}

/// Serves a fixture at `http://ADDRESS/mcp`; port 0 takes a free port.
///
/// # Errors
/// When the address cannot be bound.
pub async fn serve_http(fixture: Fixture, address: SocketAddr) -> anyhow::Result<HttpFixture> {
    let listener =
        TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address}"))?;
    let address = listener.local_addr()?;
    let stop = CancellationToken::new();
    let config = StreamableHttpServerConfig::default()
        .with_allowed_hosts(["localhost", "127.0.0.1", "::1"])
        .with_allowed_origins(["http://localhost:*", "http://127.0.0.1:*", "http://[::1]:*"])
        .with_sse_retry(Some(RETRY))
        .with_legacy_session_mode(fixture.era().has_sessions())
        .with_cancellation_token(stop.clone());
    let service = StreamableHttpService::new(
        move || Ok(fixture.new_session()),
        Arc::new(LocalSessionManager::default()),
        config,
    );
    let app = Router::new().nest_service("/mcp", service).layer(middleware::from_fn(closable));
    let stopped = stop.clone().cancelled_owned();
    let task = tokio::spawn(async move {
        // The only error is a listener that fails, and then the client sees it first.
        let _ = axum::serve(listener, app).with_graceful_shutdown(stopped).await;
    });
    Ok(HttpFixture { address, stop, task })
}

async fn closable(mut request: Request, next: Next) -> Response {
    let closer = StreamCloser::default();
    request.extensions_mut().insert(closer.clone());
    next.run(request).await.map(|body| {
        Body::from_stream(body.into_data_stream().take_until(closer.0.cancelled_owned()))
    })
}
