//! Serves a connection: detects TLS and the HTTP version, then runs the protocol to its end.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::BoxFuture;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::graceful::GracefulConnection;
use lockgate_admission::future_pool::FuturePool;
use lockgate_telemetry::Rejection;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;

use crate::config::Audience;
use crate::connection::{CloseReason, ConnectionState, HttpIo, MeteredSocket, Registration};
use crate::context::{ConnectionContext, Fallback, ListenerState};
use crate::exchange::{Answer, Arrival, answer_request};
use crate::gateway_handler::Handler;
use crate::incoming_body::connection_waker;
use crate::slots::Slot;
use crate::tls::ServerCertificate;
use crate::{connection, tls};

/// The type of the first TLS record (RFC 8446, 5.1). No HTTP method starts with this byte.
const TLS_HANDSHAKE: u8 = 22;

pub(super) async fn serve_connection(
    app: Arc<LoopState>,
    entry: Registration,
    stream: TcpStream,
    remote: SocketAddr,
    slot: Slot,
) {
    let known = Arc::clone(&entry.state);
    let handler = Arc::clone(&app.handler);
    let write = app.listener.config.http.write_timeout;
    connection::run_connection(
        entry,
        Box::pin(detect_protocol(app, Arc::clone(&known), stream, remote)),
    )
    .await;
    if known.close_reason() == CloseReason::UnreadAnswer {
        let seconds = write.as_secs();
        tracing::warn!(
            %remote,
            seconds,
            "connection closed: the client did not read its responses"
        );
        let words =
            format!("the client did not read its responses for {seconds} s (http.write_timeout)");
        handler.record_rejection(Rejection::SlowClient, &words);
    }
    drop(slot);
}

/// Detects the protocol and serves it. Each branch is boxed separately, so that a connection
/// allocates memory only for its own protocol.
async fn detect_protocol(
    app: Arc<LoopState>,
    state: Arc<ConnectionState>,
    stream: TcpStream,
    remote: SocketAddr,
) {
    let Ok(local) = stream.local_addr() else { return };
    let _ = stream.set_nodelay(true);
    let context = ConnectionContext {
        listener: Arc::clone(&app.listener),
        handler: Arc::clone(&app.handler),
        fallback: app.fallback.clone(),
        state: Arc::clone(&state),
        remote,
        local: local.ip().to_canonical(),
        certificate: None,
        is_encrypted: false,
        host: OnceLock::new(),
    };
    let mut identity = app.identity.as_ref();
    if app.listener.config.audience == Audience::Operators
        && identity.is_some()
        && !starts_tls(&stream).await
    {
        identity = None;
    }
    if let Some(identity) = identity {
        Box::pin(serve_tls(&app, identity.acceptor(), context, MeteredSocket::new(stream, state)))
            .await;
    } else if let Ok(two) = detect_http2(&stream).await {
        serve_http(&app, context, MeteredSocket::new(stream, state), two).await;
    }
}

async fn serve_tls(
    app: &LoopState,
    acceptor: TlsAcceptor,
    mut context: ConnectionContext,
    stream: MeteredSocket<TcpStream>,
) {
    let stream = match Box::pin(acceptor.accept(stream)).await {
        Ok(stream) => stream,
        Err(error) => return tracing::debug!(%error, "TLS handshake failed"),
    };
    let two = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    match tls::read_client_certificate(stream.get_ref().1) {
        Ok(certificate) => context.certificate = certificate,
        Err(error) => return tracing::warn!(%error, "connection refused"),
    }
    context.is_encrypted = true;
    serve_http(app, context, stream, two).await;
}

/// Returns whether the connection starts with a TLS handshake. Peeks at the first byte.
async fn starts_tls(stream: &TcpStream) -> bool {
    let mut start = [0; 1];
    matches!(stream.peek(&mut start).await, Ok(1)) && start == [TLS_HANDSHAKE]
}

/// Returns whether the connection starts with the HTTP/2 preface. Peeks at the first bytes.
async fn detect_http2(stream: &TcpStream) -> io::Result<bool> {
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

fn serve_http<T>(
    app: &LoopState,
    context: ConnectionContext,
    stream: T,
    two: bool,
) -> BoxFuture<'static, ()>
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let state = Arc::clone(&context.state);
    state.set_protocol(two);
    let io = TokioIo::new(HttpIo::new(stream, state));
    let context = Arc::new(context);
    let owner = Arc::clone(&context);
    let futures = Arc::clone(&app.futures);
    let service = service_fn(move |request| futures.run((Arc::clone(&context), request)));
    if two {
        Box::pin(drive(app.two.serve_connection(io, service), owner))
    } else {
        Box::pin(drive(app.one.serve_connection(io, service), owner))
    }
}

/// Polls a connection to its end, and starts its graceful shutdown on request.
async fn drive<C>(mut connection: C, context: Arc<ConnectionContext>)
where
    C: GracefulConnection<Error = hyper::Error> + Unpin,
{
    let mut told = false;
    // A connection stays in its task.
    let waker = std::future::poll_fn(|cx| Poll::Ready(connection_waker(cx.waker()))).await;
    let ended = std::future::poll_fn(|_| {
        if !told && context.state.close_reason() == CloseReason::Graceful {
            told = true;
            Pin::new(&mut connection).graceful_shutdown();
        }
        Pin::new(&mut connection).poll(&mut Context::from_waker(&waker))
    });
    if let Err(error) = ended.await {
        tracing::debug!(%error, "connection ended early");
        // hyper has answered with 431, or with 414 because of the request line.
        if error.is_parse_too_large() {
            let words = "the request line or headers are too large (http.header_bytes)";
            context.handler.record_rejection(Rejection::HeadersTooLarge, words);
        }
    }
}

/// Concurrent requests per HTTP/2 connection.
const MAX_STREAMS: u32 = 128;
/// hyper's minimum read buffer.
const MIN_BUFFER: usize = 8 * 1024;
/// Read buffer space beyond the headers lets a body arrive in few reads.
const MAX_BUFFER: usize = 256 * 1024;

pub(super) struct LoopState {
    pub(super) listener: Arc<ListenerState>,
    pub(super) handler: Arc<Handler>,
    pub(super) fallback: Fallback,
    pub(super) identity: Option<Arc<ServerCertificate>>,
    one: http1::Builder,
    two: http2::Builder<TokioExecutor>,
    futures: Arc<FuturePool<Arrival, Answer>>,
}

impl LoopState {
    pub(super) fn new(
        listener: Arc<ListenerState>,
        identity: Option<Arc<ServerCertificate>>,
        handler: Arc<Handler>,
        fallback: Fallback,
    ) -> Self {
        let headers = listener.config.http.header_bytes;
        let mut one = http1::Builder::new();
        let mut two = http2::Builder::new(TokioExecutor::new());
        // The sweep in `connection` bounds the time for headers without a timer per request, and
        // probes whether a half-closed client has left. hyper's own detection would keep a read
        // buffer for each open stream, and drop a message whose client leaves at once.
        one.half_close(true)
            .header_read_timeout(None)
            .max_header_size(headers)
            .max_buf_size(headers.saturating_add(MIN_BUFFER).clamp(MIN_BUFFER, MAX_BUFFER));
        two.max_concurrent_streams(MAX_STREAMS)
            .max_header_list_size(u32::try_from(headers).unwrap_or(u32::MAX));
        let futures = FuturePool::new(answer_request);
        Self { listener, handler, fallback, identity, one, two, futures }
    }
}
