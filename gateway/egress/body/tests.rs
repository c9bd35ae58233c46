//! Tests of `body`.

#![allow(clippy::unwrap_used)]

use bytes::Bytes;

use super::*;
use crate::tests::scripted::{HOLD, config, origin, post, serve};

const STREAM: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";

#[tokio::test]
async fn frames_come_as_they_are_sent_and_the_end_gives_the_connection_back() {
    let server = serve(&[&[
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n",
        HOLD,
    ]])
    .await;
    let origin = origin(server.port, &config());
    let mut body = origin.send(post(&origin, "")).await.unwrap().into_body();
    let mut parts = Vec::new();
    while let Some(part) = body.data().await.unwrap() {
        parts.push(part);
    }
    assert_eq!(parts.concat(), b"onetwo");
    assert!(body.held.is_none());
    assert_eq!(origin.idle(), 1);
}

#[tokio::test]
async fn dropping_a_stream_before_its_end_closes_the_connection() {
    let mut server = serve(&[&[STREAM, HOLD]]).await;
    let origin = origin(server.port, &config());
    let mut body = origin.send(post(&origin, "")).await.unwrap().into_body();
    assert!(body.held.is_some());
    tokio::select! {
        biased;
        data = body.data() => panic!("{data:?}"),
        () = tokio::task::yield_now() => {}
    }
    drop(body);
    assert_eq!(server.ended.recv().await, Some(0));
    assert_eq!(origin.idle(), 0);
}

#[tokio::test]
async fn a_waiting_reader_is_woken_by_what_arrives_later() {
    // The second response is written when a second request arrives on the same connection, which a
    // plain socket can send late.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let origin = origin(listener.local_addr().unwrap().port(), &config());
    let (go, wait) = tokio::sync::oneshot::channel::<()>();
    let server = tokio::spawn(async move {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let (mut tcp, _) = listener.accept().await.unwrap();
        assert!(tcp.read(&mut [0; 4096]).await.unwrap() > 0);
        tcp.write_all(STREAM.as_bytes()).await.unwrap();
        wait.await.unwrap();
        tcp.write_all(b"5\r\nlater\r\n").await.unwrap();
        tcp.read(&mut [0; 1]).await.unwrap()
    });
    let mut body = origin.send(post(&origin, "")).await.unwrap().into_body();
    let reader = tokio::spawn(async move { body.data().await.unwrap().unwrap() });
    tokio::task::yield_now().await;
    go.send(()).unwrap();
    assert_eq!(reader.await.unwrap(), "later");
    assert_eq!(server.await.unwrap(), 0);
}

#[tokio::test]
async fn collecting_stops_at_the_limit_announced_or_not() {
    let server = serve(&[
        &["HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n12345", HOLD],
        &["HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\n12345\r\n", HOLD],
        &["HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\n123\r\n2\r\n45\r\n", HOLD],
    ])
    .await;
    let origin = origin(server.port, &config());
    for _ in 0..3 {
        let body = origin.send(post(&origin, "")).await.unwrap().into_body();
        assert!(matches!(body.collect_limited(4).await, Err(BodyError::TooLarge(4))));
        // The rest of the body is not awaited.
        assert_eq!(origin.idle(), 0);
    }
}

#[tokio::test]
async fn a_body_of_exactly_the_limit_is_taken_in_one_piece_or_more() {
    let server = serve(&[&[
        "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n12345",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\n123\r\n2\r\n45\r\n0\r\nx: trailer\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
        HOLD,
    ]])
    .await;
    let origin = origin(server.port, &config());
    for expected in ["12345", "12345", ""] {
        let body = origin.send(post(&origin, "")).await.unwrap().into_body();
        assert_eq!(body.collect_limited(5).await.unwrap(), Bytes::from_static(expected.as_bytes()));
    }
    assert_eq!((origin.idle(), server.requests.lock().len()), (1, 3));
}

#[tokio::test]
async fn a_body_that_breaks_off_is_an_error() {
    let server = serve(&[&["HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n12345"]]).await;
    let origin = origin(server.port, &config());
    let body = origin.send(post(&origin, "")).await.unwrap().into_body();
    assert!(matches!(body.collect_limited(100).await, Err(BodyError::Broken(_))));
    assert_eq!(origin.idle(), 0);
}
