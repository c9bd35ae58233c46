//! Tests of the wakes of a connection while its request body is read.

#![allow(clippy::unwrap_used)]

use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::{Request, Response};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::AsyncWriteExt;

use super::*;

#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Polls a connection once with a request of which this much of the body has arrived. Returns the
/// number of wakes during the poll, and of body bytes that were read.
async fn poll_with(body: &str, sent: usize) -> (usize, usize) {
    let read = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&read);
    let service = service_fn(move |request: Request<Incoming>| {
        let counted = Arc::clone(&counted);
        async move {
            let version = request.version();
            let mut body = IncomingBody::new(request.into_body(), version);
            while let Some(Ok(frame)) = body.frame().await {
                counted.fetch_add(frame.data_ref().map_or(0, Bytes::len), Ordering::Relaxed);
                if body.is_end_stream() {
                    break;
                }
            }
            // The call waits for its server.
            std::future::pending::<Result<Response<String>, hyper::Error>>().await
        }
    });
    let (mut client, server) = tokio::io::duplex(4096);
    let head = format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", body.len());
    client.write_all(head.as_bytes()).await.unwrap();
    client.write_all(&body.as_bytes()[..sent]).await.unwrap();
    let mut connection =
        pin!(http1::Builder::new().serve_connection(TokioIo::new(server), service));
    let wakes = Arc::new(Wakes::default());
    let waker = connection_waker(&Waker::from(Arc::clone(&wakes)));
    let polled = connection.as_mut().poll(&mut Context::from_waker(&waker));
    assert!(polled.is_pending());
    (wakes.0.load(Ordering::Relaxed), read.load(Ordering::Relaxed))
}

#[tokio::test]
async fn the_last_frame_wakes_nothing() {
    assert_eq!(poll_with("0123456789", 10).await, (0, 10));
}

#[tokio::test]
async fn another_frame_wakes_the_connection() {
    let (wakes, read) = poll_with("0123456789", 4).await;
    assert!(wakes > 0, "the rest is read after a wake");
    assert_eq!(read, 4);
}
