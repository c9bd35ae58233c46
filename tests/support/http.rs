//! The fixture over Streamable HTTP. Only loopback `Host` and `Origin` values are accepted. A tool
//! may close its own response stream during a call (`StreamCloser`).

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

/// A request extension; cancelling its token ends the response body.
#[derive(Clone, Default)]
pub(crate) struct StreamCloser(pub(crate) CancellationToken);

/// A running HTTP fixture. Dropping it leaves the server running; `stop` ends it.
pub struct HttpFixture {
    address: SocketAddr,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl HttpFixture {
    /// Returns the URL of the MCP endpoint.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// Ends all sessions and closes the listener.
    pub async fn stop(self) {
        self.stop.cancel();
        let abort = self.task.abort_handle();
        if tokio::time::timeout(Duration::from_secs(2), self.task).await.is_err() {
            abort.abort();
        }
    }
}

/// Serves a fixture at `http://ADDRESS/mcp`; port 0 selects a free port.
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
        // A listener failure is the only error, and the client detects it first.
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
