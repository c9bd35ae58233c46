//! An HTTP/1.1 connection and the task that drives it. The task ends with the connection, which
//! closes when `Http1Connection` is dropped.

use std::sync::Arc;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::TrySendError;
use hyper::client::conn::http1::{Builder, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::task::JoinHandle;

use crate::payload::Payload;
use crate::stream::Stream;

/// Longest response head in bytes. hyper's default is its whole read buffer, 400 kB.
const MAX_HEAD: usize = 64 << 10;
/// Largest read-ahead of a connection in bytes, which no budget is charged for. hyper's default is
/// 400 kB.
const MAX_BUFFER: usize = 128 << 10;

/// The pool of connections waiting for their next request.
pub(crate) trait IdleConnections: Send + Sync {
    /// Keeps a connection, or closes it if there are enough.
    fn keep(self: Arc<Self>, connection: Http1Connection);
}

/// The sending side of a connection. Dropping it closes the socket, in any state of the exchange.
pub(crate) struct Http1Connection {
    sender: SendRequest<Payload>,
    driver: JoinHandle<()>,
}

impl Http1Connection {
    /// Prepares a connected stream for HTTP/1.1. Sends nothing.
    pub(crate) async fn new(stream: Stream) -> hyper::Result<Self> {
        let mut builder = Builder::new();
        builder.max_header_size(MAX_HEAD).max_buf_size(MAX_BUFFER);
        let (sender, connection) = builder.handshake(TokioIo::new(stream)).await?;
        let driver = tokio::spawn(async {
            // Errors are reported to the waiting exchange.
            let _ = connection.await;
        });
        Ok(Self { sender, driver })
    }

    /// Sends a request and waits for the response head. The error contains the request if none of
    /// it was written: hyper checks for a close by the server before it takes a request, so a stale
    /// connection does not lose the request.
    pub(crate) async fn send(
        &mut self,
        request: Request<Payload>,
    ) -> Result<Response<Incoming>, TrySendError<Request<Payload>>> {
        self.sender.try_send_request(request).await
    }

    /// Reports whether the last exchange is over on both sides, so that the next can start.
    pub(crate) fn is_ready(&self) -> bool {
        self.sender.is_ready()
    }

    /// Reports whether no further exchange is possible.
    pub(crate) fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }
}

impl Drop for Http1Connection {
    fn drop(&mut self) {
        // hyper would only notice at its next poll; the server must see a cancelled call at once.
        self.driver.abort();
    }
}
