//! Tests of `outflow`.

#![allow(clippy::unwrap_used)]

use futures_util::{FutureExt, StreamExt};
use http_body_util::{BodyExt, Empty};
use tokio::sync::mpsc;

use super::*;
use crate::watch::Pulse;

type Flow = Outflow<Empty<Bytes>>;

fn events(interval: Duration) -> (mpsc::UnboundedSender<Outgoing>, Flow) {
    let (send, mut receive) = mpsc::unbounded_channel();
    let events = futures_util::stream::poll_fn(move |cx| receive.poll_recv(cx)).boxed();
    let reply = Reply::Stream { headers: HeaderMap::new(), events };
    (send, respond(reply, interval, Pulse::alone().begin()).into_body())
}

async fn next(flow: &mut Flow) -> Option<String> {
    let frame = flow.frame().await?.unwrap();
    Some(String::from_utf8(frame.into_data().unwrap().to_vec()).unwrap())
}

fn outgoing(id: Option<&str>, data: &'static str, retry: Option<u64>) -> Outgoing {
    Outgoing { id: id.map(Into::into), data: Bytes::from_static(data.as_bytes()), retry }
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
    let mut flow: Flow = Outflow::Spliced { chunks: [Bytes::from_static(b"<"), middle, Bytes::from_static(b">")] };
    assert_eq!(flow.size_hint().exact(), Some(102));
    flow.frame().await.unwrap().unwrap();
    let chunk = flow.frame().await.unwrap().unwrap().into_data().unwrap();
    assert_eq!((chunk.as_ptr(), chunk.len()), (at, 100));
    assert!(!flow.is_end_stream());
    flow.frame().await.unwrap().unwrap();
    assert!(flow.is_end_stream() && flow.frame().await.is_none());
    assert!(Flow::empty().is_end_stream());
}
