//! The fixture over HTTP+SSE (2024-11-05): an event stream and a POST address per session.

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
};

use anyhow::Context as _;
use axum::{
    Router,
    body::{Body, Bytes},
    extract::{Path, State},
    http::{StatusCode, header},
    response::{IntoResponse as _, Response},
    routing::{get, post},
};
use futures_util::{StreamExt as _, stream};
use rmcp::ServiceExt as _;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, ReadHalf, WriteHalf},
    net::TcpListener,
    sync::Mutex as AsyncMutex,
};

use crate::fixture::Fixture;

/// Buffer size in bytes between a session and its client.
const HELD: usize = 1 << 20;

type Writer = Arc<AsyncMutex<WriteHalf<DuplexStream>>>;

/// Sessions, by the number in their address.
struct Sessions {
    fixture: Fixture,
    writers: Mutex<HashMap<usize, Writer>>,
}

/// Serves a fixture at `http://ADDRESS/sse` until the process ends; port 0 selects a free port.
///
/// # Errors
/// When the address cannot be bound.
pub async fn serve_sse(fixture: Fixture, address: SocketAddr) -> anyhow::Result<SocketAddr> {
    let listener =
        TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address}"))?;
    let address = listener.local_addr()?;
    let sessions = Arc::new(Sessions { fixture, writers: Mutex::default() });
    let app = Router::new()
        .route("/sse", get(open_session))
        .route("/inbox/{session}", post(take_message))
        .with_state(sessions);
    tokio::spawn(async move { axum::serve(listener, app).await });
    Ok(address)
}

async fn open_session(State(sessions): State<Arc<Sessions>>) -> Response {
    let (own, other) = tokio::io::duplex(HELD);
    let (reader, writer) = tokio::io::split(own);
    let fixture = sessions.fixture.new_session();
    tokio::spawn(async move {
        if let Ok(running) = fixture.serve(tokio::io::split(other)).await {
            let _ = running.waiting().await;
        }
    });
    let number = {
        let mut writers = sessions.writers.lock().unwrap_or_else(PoisonError::into_inner);
        let number = writers.len();
        writers.insert(number, Arc::new(AsyncMutex::new(writer)));
        number
    };
    let first = format!("event: endpoint\ndata: /inbox/{number}\n\n");
    let first = stream::once(async move { Ok::<_, std::io::Error>(first) });
    let body = Body::from_stream(first.chain(stream::unfold(BufReader::new(reader), next_event)));
    ([(header::CONTENT_TYPE, "text/event-stream")], body).into_response()
}

async fn next_event(
    mut lines: BufReader<ReadHalf<DuplexStream>>,
) -> Option<(std::io::Result<String>, BufReader<ReadHalf<DuplexStream>>)> {
    let mut line = String::new();
    match lines.read_line(&mut line).await {
        Ok(0) | Err(_) => None,
        Ok(_) => Some((Ok(format!("event: message\ndata: {}\n\n", line.trim_end())), lines)),
    }
}

async fn take_message(
    State(sessions): State<Arc<Sessions>>,
    Path(number): Path<usize>,
    message: Bytes,
) -> StatusCode {
    let writer = {
        let writers = sessions.writers.lock().unwrap_or_else(PoisonError::into_inner);
        writers.get(&number).cloned()
    };
    let Some(writer) = writer else { return StatusCode::NOT_FOUND };
    let line = [&message[..], b"\n"].concat();
    match writer.lock().await.write_all(&line).await {
        Ok(()) => StatusCode::ACCEPTED,
        Err(_) => StatusCode::NOT_FOUND,
    }
}
