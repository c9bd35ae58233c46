//! Tests of half-closed connections.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use lockgate_proxy::transport::{Exchange, ExchangeKind};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::sync::mpsc;

use super::*;
use crate::connection::ActiveRequest;
use crate::tests::fake::{config, fake, message, post, start};

const ANSWER: &str = "HTTP/1.1 204 No Content\r\n\r\n";

/// Returns a connection with a running request, after a FIN from its client.
async fn half_closed(
    buffer: usize,
) -> (DuplexStream, HttpIo<DuplexStream>, Arc<ConnectionState>, ActiveRequest) {
    let (mut client, server) = tokio::io::duplex(buffer);
    client.shutdown().await.unwrap();
    let state = ConnectionState::untracked();
    let active = state.begin_request();
    (client, HttpIo::new(server, Arc::clone(&state)), state, active)
}

/// Polls a connection as HTTP does while it waits for the response.
async fn wait(io: &mut HttpIo<DuplexStream>, time: Duration) -> io::Result<()> {
    let polled = std::future::poll_fn(|cx| match Pin::new(&mut *io).poll_flush(cx) {
        Poll::Ready(Ok(())) => Poll::Pending,
        other => other,
    });
    tokio::time::timeout(time, polled).await.unwrap_or(Ok(()))
}

#[tokio::test(start_paused = true)]
async fn a_client_that_waits_is_asked_at_growing_pauses() {
    let (mut client, mut io, _state, _active) = half_closed(1 << 16).await;
    let mut interim = [0; 4096];
    for (seconds, count) in [(1, 3), (59, 7), (60, 4)] {
        wait(&mut io, Duration::from_secs(seconds)).await.unwrap();
        let n = client.read(&mut interim).await.unwrap();
        assert_eq!(&interim[..n], INTERIM.repeat(count), "{seconds} s later");
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_does_not_stand_within_an_interim_one() {
    let (mut client, mut io, state, _active) = half_closed(3).await;
    let serve = async move {
        wait(&mut io, FIRST_PROBE_INTERVAL + FIRST_PROBE_INTERVAL / 2).await.unwrap();
        state.mark_answering();
        io.write_all(ANSWER.as_bytes()).await.unwrap();
    };
    let mut text = String::new();
    let (read, ()) = tokio::join!(client.read_to_string(&mut text), serve);
    read.unwrap();
    assert_eq!(text.as_bytes(), [INTERIM, ANSWER.as_bytes()].concat());
}

#[tokio::test(start_paused = true)]
async fn within_an_event_stream_a_comment_is_asked_for() {
    let (client, mut io, state, active) = half_closed(1 << 16).await;
    state.mark_answering();
    assert!(!active.take_comment_request());
    wait(&mut io, FIRST_PROBE_INTERVAL).await.unwrap();
    assert!(active.take_comment_request() && !active.take_comment_request(), "once");
    wait(&mut io, FIRST_PROBE_INTERVAL * 2).await.unwrap();
    assert!(active.take_comment_request());
    drop(client);
}

#[tokio::test(start_paused = true)]
async fn a_client_of_http_1_0_has_left() {
    let (_client, mut io, state, _active) = half_closed(1 << 16).await;
    state.set_version(http::Version::HTTP_10);
    assert!(wait(&mut io, Duration::ZERO).await.is_err());
}

/// A FIN behind the next request is not detected early, and no request is lost.
#[tokio::test]
async fn requests_behind_one_that_runs_are_answered_in_order() {
    let (begun, mut runs) = mpsc::unbounded_channel();
    let (go, wait) = mpsc::unbounded_channel::<()>();
    let wait = Arc::new(tokio::sync::Mutex::new(wait));
    let running = fake(move |exchange: Exchange| {
        let (begun, wait) = (begun.clone(), Arc::clone(&wait));
        async move {
            let ExchangeKind::Post(body) = exchange.kind else { return message("no body") };
            begun.send(()).unwrap();
            wait.lock().await.recv().await;
            message(body)
        }
    });
    let running = start(config(), running, Duration::from_secs(5)).await;
    let kept = |body| post("/mcp", "", body).replace("connection: close\r\n", "");
    let mut client = running.connect().await;
    client.write_all(kept("first").as_bytes()).await.unwrap();
    runs.recv().await.unwrap();
    client.write_all((kept("second") + &kept("third")).as_bytes()).await.unwrap();
    client.shutdown().await.unwrap();
    for _ in 0..3 {
        go.send(()).unwrap();
    }
    let mut answers = String::new();
    client.read_to_string(&mut answers).await.unwrap();
    let bodies: Vec<&str> =
        answers.split("HTTP/1.1 ").filter_map(|answer| answer.split("\r\n\r\n").nth(1)).collect();
    assert_eq!(bodies, ["first", "second", "third"], "{answers}");
}
