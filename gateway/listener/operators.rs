//! The operator's endpoints on an address of their own, and on a thread of their own: they answer
//! whatever clients do to the gateway, and whatever its workers do. Its connections are bounded in
//! number and time; the oldest makes room for the next.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::task::AbortHandle;
use tower::ServiceExt;

use crate::fallback::Fallback;
use crate::http::{BindError, bind_socket};

/// Open connections.
const CONNECTIONS: usize = 128;
/// How long a request may take to arrive, and a connection may be idle.
const READ: Duration = Duration::from_secs(30);

/// A bound address that does not answer yet.
pub struct OperatorServer {
    listener: StdListener,
    address: SocketAddr,
}

impl OperatorServer {
    /// Binds an address. Port 0 takes a free port.
    ///
    /// # Errors
    /// [`BindError::Address`].
    pub fn bind(address: SocketAddr) -> Result<Self, BindError> {
        let bound = bind_socket(address, false)
            .and_then(|listener| Ok(Self { address: listener.local_addr()?, listener }));
        bound.map_err(|cause| BindError::Address { address, cause })
    }

    /// The bound address, port included.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers with `service`, on a thread of its own, until the process ends.
    ///
    /// # Errors
    /// The thread or its runtime does not start.
    pub fn start<F: Fallback>(self, service: F) -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let thread = std::thread::Builder::new().name("operators".into());
        thread.spawn(move || {
            let ended: io::Result<Infallible> = runtime.block_on(serve(self.listener, service));
            let Err(error) = ended;
            tracing::error!(%error, "the operator's endpoints have ended");
        })?;
        Ok(())
    }
}

async fn serve<F: Fallback>(listener: StdListener, service: F) -> io::Result<Infallible> {
    let listener = TcpListener::from_std(listener)?;
    let mut connections: VecDeque<AbortHandle> = VecDeque::new();
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection of an operator");
                // Out of files: one less of ours is one more for the next.
                if let Some(oldest) = connections.pop_front() {
                    oldest.abort();
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        if connections.len() >= CONNECTIONS {
            connections.retain(|connection| !connection.is_finished());
        }
        while connections.len() >= CONNECTIONS {
            let Some(oldest) = connections.pop_front() else { break };
            oldest.abort();
        }
        let service = service.clone();
        let answer = service_fn(move |request: Request<Incoming>| service.clone().oneshot(request));
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new()).header_read_timeout(READ);
        let connection = http.serve_connection(TokioIo::new(stream), answer);
        let task = tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "an operator's connection ended early");
            }
        });
        connections.push_back(task.abort_handle());
    }
}
