//! One connection: finds out what its client speaks, TLS and a version of HTTP, and speaks it to the end.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use hyper_util::server::graceful::GracefulConnection;
use lockgate_telemetry::Rejection;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use super::{App, Http};
use crate::Receive;
use crate::exchange::{Link, answer};
use crate::fallback::Other;
use crate::slots::Slot;
use crate::tls;
use crate::watch::{self, Entry, Meter, Order, Pulse, Wire};

/// One connection, from its first byte to its last.
pub(super) async fn serve<R: Receive, O: Other>(
    app: Arc<App<R, O>>,
    entry: Entry,
    stream: TcpStream,
    remote: SocketAddr,
    slot: Slot,
) {
    let (pulse, known, receive) = (Arc::clone(&entry.pulse), Arc::clone(&entry.pulse), Arc::clone(&app.receive));
    let write = app.shared.config.limits.write_timeout;
    let task = async move {
        let Ok(local) = stream.local_addr() else { return };
        let _ = stream.set_nodelay(true);
        let link = |certificate| Link {
            shared: Arc::clone(&app.shared),
            receive: Arc::clone(&app.receive),
            other: app.other.clone(),
            pulse: Arc::clone(&pulse),
            remote,
            local: local.ip().to_canonical(),
            certificate,
            host: OnceLock::new(),
        };
        if let Some(identity) = &app.identity {
            match identity.acceptor().accept(Meter::new(stream, Arc::clone(&pulse))).await {
                Ok(stream) => {
                    let two = stream.get_ref().1.alpn_protocol() == Some(b"h2");
                    match tls::holder(stream.get_ref().1) {
                        Ok(certificate) => speak(&app.http, link(certificate), stream, two).await,
                        Err(error) => tracing::warn!(%error, "connection refused"),
                    }
                }
                Err(error) => tracing::debug!(%error, "TLS handshake failed"),
            }
        } else if let Ok(two) = opens_http2(&stream).await {
            let stream = Meter::new(stream, Arc::clone(&pulse));
            speak(&app.http, link(None), stream, two).await;
        }
    };
    watch::run(entry, task).await;
    if known.order() == Order::Unread {
        let seconds = write.as_secs();
        tracing::warn!(%remote, seconds, "connection ended: its client took nothing of what was written to it");
        let words = format!("nothing of what was written was taken for {seconds} s (http.write_timeout)");
        receive.turned_away(Rejection::SlowClient, words.into());
    }
    drop(slot);
}

/// Whether the connection starts with HTTP/2's preface, by looking at its first bytes without taking them.
async fn opens_http2(stream: &TcpStream) -> io::Result<bool> {
    let mut start = [0; 3];
    let mut pause = Duration::from_millis(1);
    loop {
        let n = stream.peek(&mut start).await?;
        match start.get(..n).unwrap_or_default() {
            // No HTTP/1.1 method starts like this.
            b"PRI" => return Ok(true),
            b"P" | b"PR" => {
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(Duration::from_millis(100));
            }
            _ => return Ok(false),
        }
    }
}

async fn speak<R, O, T>(http: &Http, link: Link<R, O>, stream: T, two: bool)
where
    R: Receive,
    O: Other,
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let pulse = Arc::clone(&link.pulse);
    pulse.speaks(two);
    let io = TokioIo::new(Wire::new(stream, Arc::clone(&pulse)));
    let link = Arc::new(link);
    let service = service_fn(move |request| answer(Arc::clone(&link), request));
    let ended = if two {
        drive(http.two.serve_connection(io, service), &pulse).await
    } else {
        drive(http.one.serve_connection(io, service), &pulse).await
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "connection ended early");
    }
}

/// Polls a connection to its end, and tells it to finish when it is told so.
async fn drive<C: GracefulConnection>(connection: C, pulse: &Pulse) -> Result<(), C::Error> {
    let mut connection = std::pin::pin!(connection);
    let mut told = false;
    std::future::poll_fn(|cx| {
        if !told && pulse.order() == Order::Close {
            told = true;
            connection.as_mut().graceful_shutdown();
        }
        connection.as_mut().poll(cx)
    })
    .await
}
