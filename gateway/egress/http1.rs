//! One HTTP/1.1 connection and the task that drives it. The task ends with the connection, and the
//! connection with this.

use std::sync::Arc;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::TrySendError;
use hyper::client::conn::http1::{Builder, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::task::JoinHandle;

use crate::payload::Payload;
use crate::stream::Stream;

/// Bytes of a response head. hyper's own default is its whole read buffer, 400 kB.
const MAX_HEAD: usize = 64 << 10;
/// Bytes that one connection reads ahead of whoever takes them, which no account counts. hyper's
/// own default is 400 kB.
const MAX_BUFFER: usize = 128 << 10;

/// Where a connection waits for its next request.
pub(crate) trait IdleConnections: Send + Sync {
    /// Keeps a connection, or closes it when there are enough.
    fn keep(self: Arc<Self>, connection: Http1Connection);
}

/// The way to put requests into a connection. Dropping it closes the socket, whatever state the
/// exchange is in.
pub(crate) struct Http1Connection {
    sender: SendRequest<Payload>,
    driver: JoinHandle<()>,
}

impl Http1Connection {
    /// Prepares a connected stream for HTTP/1.1. Nothing is sent.
    pub(crate) async fn new(stream: Stream) -> hyper::Result<Self> {
        let mut builder = Builder::new();
        builder.max_header_size(MAX_HEAD).max_buf_size(MAX_BUFFER);
        let (sender, connection) = builder.handshake(TokioIo::new(stream)).await?;
        let driver = tokio::spawn(async {
            // What goes wrong is told to whoever waits for the exchange.
            let _ = connection.await;
        });
        Ok(Self { sender, driver })
    }

    /// Sends a request and waits for the response head. The error holds the request if none of it
    /// was written: hyper looks for a close by the server before it takes up a request, so a stale
    /// connection costs nothing but this.
    pub(crate) async fn send(
        &mut self,
        request: Request<Payload>,
    ) -> Result<Response<Incoming>, TrySendError<Request<Payload>>> {
        self.sender.try_send_request(request).await
    }

    /// Whether the last exchange is over on both sides and another one may start.
    pub(crate) fn is_ready(&self) -> bool {
        self.sender.is_ready()
    }

    /// Whether there will never be another exchange.
    pub(crate) fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }
}

impl Drop for Http1Connection {
    fn drop(&mut self) {
        // hyper would notice by itself, but only when it looks; a cancelled call must be seen by
        // the server now.
        self.driver.abort();
    }
}
