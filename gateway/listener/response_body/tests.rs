//! Tests of `response_body`.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use futures_util::{FutureExt, StreamExt};
use http_body_util::BodyExt;
use lockgate_admission::budget::MAX_SMALL_MESSAGE;
use tokio::sync::mpsc;

use super::*;
use crate::connection::ConnectionState;

type Flow = ResponseBody;

fn events(interval: Duration) -> (mpsc::UnboundedSender<Outgoing>, Flow) {
    let (send, mut handler) = mpsc::unbounded_channel();
    let events = futures_util::stream::poll_fn(move |cx| handler.poll_recv(cx)).boxed();
    let reply = Reply::events(events);
    (
        send,
        build_response(
            HeaderMap::new(),
            reply,
            interval,
            Hold::none(ConnectionState::untracked().begin_request()),
        )
        .into_body(),
    )
}

async fn chunk(flow: &mut Flow) -> Option<Chunk> {
    flow.frame().await?.unwrap().into_data().ok()
}

async fn next(flow: &mut Flow) -> Option<String> {
    chunk(flow).await.map(|chunk| String::from_utf8(chunk.bytes.to_vec()).unwrap())
}

fn outgoing(id: Option<&str>, data: &str, retry: Option<u64>) -> Outgoing {
    Outgoing { id: id.map(Into::into), data: Bytes::copy_from_slice(data.as_bytes()).into(), retry }
}

#[tokio::test]
async fn events_are_framed_one_by_one() {
    let (send, mut flow) = events(Duration::from_secs(15));
    let table = [
        (outgoing(None, "{\"a\":1}", None), "data: {\"a\":1}\n\n"),
        (outgoing(Some("7"), "{}", None), "id: 7\ndata: {}\n\n"),
        (outgoing(None, "{\n}", None), "data: {\ndata: }\n\n"),
        (outgoing(Some("8"), "", Some(500)), "retry: 500\nid: 8\ndata: \n\n"),
    ];
    for (event, expected) in table {
        send.send(event).unwrap();
        assert_eq!(next(&mut flow).await.unwrap(), expected);
    }
    drop(send);
    assert_eq!(next(&mut flow).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_quiet_stream_shows_signs_of_life() {
    let (send, mut flow) = events(Duration::from_secs(15));
    let begin = Instant::now();
    assert_eq!(next(&mut flow).await.unwrap(), ":\n\n");
    assert_eq!(begin.elapsed().as_secs(), 15);
    tokio::time::advance(Duration::from_secs(10)).await;
    send.send(outgoing(None, "{}", None)).unwrap();
    assert_eq!(next(&mut flow).await.unwrap(), "data: {}\n\n");
    assert!(flow.frame().now_or_never().is_none());
    // Fifteen seconds after the event, not after the last comment.
    assert_eq!(next(&mut flow).await.unwrap(), ":\n\n");
    assert_eq!(begin.elapsed().as_secs(), 40);
}

#[tokio::test]
async fn texts_know_their_length_and_are_not_copied() {
    let middle = Bytes::from(vec![b'x'; 100]);
    let at = middle.as_ptr();
    let mut flow: Flow = ResponseBody::Spliced {
        chunks: Box::new([Bytes::from_static(b"<"), middle, Bytes::from_static(b">")]),
        held: None,
    };
    assert_eq!(flow.size_hint().exact(), Some(102));
    chunk(&mut flow).await.unwrap();
    let middle = chunk(&mut flow).await.unwrap();
    assert_eq!((middle.bytes.as_ptr(), middle.remaining()), (at, 100));
    assert!(!flow.is_end_stream());
    chunk(&mut flow).await.unwrap();
    assert!(flow.is_end_stream() && flow.frame().await.is_none());
    assert!(Flow::empty().is_end_stream());
}

/// Returns a connection state, and a response in three chunks that holds 30 bytes of its budget.
fn spliced() -> (Arc<ConnectionState>, Flow) {
    let state = ConnectionState::untracked();
    let mut held = Hold::none(state.begin_request());
    held.grow(30).unwrap();
    let chunks = ["<head>", "middle", ""].map(|text| Bytes::from_static(text.as_bytes()));
    (state, ResponseBody::Spliced { chunks: Box::new(chunks), held: Some(held) })
}

#[tokio::test]
async fn an_answer_counts_until_its_last_byte_is_written() {
    let (state, mut flow) = spliced();
    let used = || state.begin_request().as_ref().used();
    drop(chunk(&mut flow).await.unwrap());
    assert_eq!(used(), 30);
    let mut last = chunk(&mut flow).await.unwrap();
    drop(flow);
    last.advance(3);
    assert_eq!((used(), last.chunk()), (30, &b"dle"[..]));
    drop(last);
    assert_eq!(used(), 0);
    // Dropped without being read.
    let (state, flow) = spliced();
    drop(flow);
    assert_eq!(state.begin_request().as_ref().used(), 0);
}

#[tokio::test]
async fn events_count_while_they_are_written_and_give_way_when_memory_is_full() {
    let state = ConnectionState::untracked();
    let used = || state.begin_request().as_ref().used();
    let (send, mut handler) = mpsc::unbounded_channel();
    let events = futures_util::stream::poll_fn(move |cx| handler.poll_recv(cx)).boxed();
    let reply = Reply::events(events);
    let mut flow: Flow = build_response(
        HeaderMap::new(),
        reply,
        Duration::from_secs(15),
        Hold::none(state.begin_request()),
    )
    .into_body();
    send.send(outgoing(None, "{\"a\":1}", None)).unwrap();
    let written = chunk(&mut flow).await.unwrap();
    assert_eq!(used(), 7);
    drop(written);
    let mut others = Hold::none(state.begin_request());
    others.grow(1000).unwrap();
    let large = "x".repeat(MAX_SMALL_MESSAGE);
    let note = format!("{{\"method\":\"{large}\"}}");
    let result = format!("{{\"jsonrpc\":\"2.0\",\"id\":\"q\",\"result\":{{\"x\":\"{large}\"}}}}");
    send.send(outgoing(None, &note, None)).unwrap();
    send.send(outgoing(None, "{\"method\":\"x\"}", None)).unwrap();
    send.send(outgoing(Some("4"), &result, None)).unwrap();
    assert_eq!(
        next(&mut flow).await.unwrap(),
        "data: {\"method\":\"x\"}\n\n",
        "what is small comes"
    );
    let answer = next(&mut flow).await.unwrap();
    assert!(
        answer.starts_with("id: 4\n") && answer.contains("\"id\":\"q\",\"error\":{\"code\":-31053"),
        "{answer}"
    );
    assert!(answer.contains("limits.bytes_in_flight"), "{answer}");
    drop(others);
    send.send(outgoing(None, "{}", None)).unwrap();
    assert_eq!(next(&mut flow).await.unwrap(), "data: {}\n\n");
    assert_eq!(used(), 0);
}
