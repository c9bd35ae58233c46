//! Tests of `registry`.

#![allow(clippy::unwrap_used)]

use std::task::Context;

use bytes::{Buf, Bytes};
use http_body::Body;
use lockgate_admission::budget::Hold;

use super::*;
use crate::response_body::ResponseBody;

const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
const TICK: Duration = Duration::from_secs(1);
const HEAD: Duration = Duration::from_secs(3);
const WRITE: Duration = Duration::from_secs(5);

fn connections() -> Arc<Connections> {
    Connections::new(Arc::new(Budget::new(1000)))
}

fn order_after(connections: &Connections, state: &ConnectionState, sweeps: u32) -> CloseReason {
    for _ in 0..sweeps {
        connections.sweep(TICK, HEAD, WRITE);
    }
    state.close_reason()
}

#[test]
fn a_first_request_has_to_come_in_time() {
    let connections = connections();
    let entry = connections.add(HERE);
    let handshake = connections.add(HERE);
    entry.state.set_protocol(false);
    assert_eq!(order_after(&connections, &entry.state, 3), CloseReason::None);
    assert_eq!(order_after(&connections, &entry.state, 1), CloseReason::LateHeaders);
    assert_eq!(
        handshake.state.close_reason(),
        CloseReason::Abort,
        "nobody would read it the words"
    );
    assert_eq!(order_after(&connections, &entry.state, 1), CloseReason::Abort);
}

#[test]
fn a_running_request_may_take_as_long_as_it_wants() {
    let connections = connections();
    let entry = connections.add(HERE);
    entry.state.set_protocol(false);
    let active = entry.state.begin_request();
    assert_eq!(order_after(&connections, &entry.state, 10_000), CloseReason::None);
    drop(active);
    assert_eq!(
        order_after(&connections, &entry.state, 100),
        CloseReason::None,
        "idle, but not for long"
    );
    entry.state.received.store(true, Ordering::Relaxed);
    assert_eq!(
        order_after(&connections, &entry.state, 4),
        CloseReason::None,
        "half a header block"
    );
    assert_eq!(order_after(&connections, &entry.state, 1), CloseReason::LateHeaders);
}

#[test]
fn an_idle_connection_is_closed_kindly_and_an_unread_one_is_ended() {
    let connections = connections();
    let (idle, write_blocked, writing) =
        (connections.add(HERE), connections.add(HERE), connections.add(HERE));
    drop(idle.state.begin_request());
    drop(writing.state.begin_request());
    let _active = write_blocked.state.begin_request();
    write_blocked.state.write_blocked.store(true, Ordering::Relaxed);
    for _ in 0..125 {
        writing.state.wrote.store(true, Ordering::Relaxed);
        connections.sweep(TICK, HEAD, WRITE);
    }
    assert_eq!(idle.state.close_reason(), CloseReason::Graceful);
    assert_eq!(write_blocked.state.close_reason(), CloseReason::UnreadAnswer);
    assert_eq!(writing.state.close_reason(), CloseReason::None);
}

/// `http.write_timeout` at its limits: any progress counts, however small and late.
#[test]
fn whoever_takes_something_in_time_stays() {
    let connections = connections();
    let (write_blocked, slow, idle) =
        (connections.add(HERE), connections.add(HERE), connections.add(HERE));
    let _active = [&write_blocked, &slow, &idle].map(|entry| entry.state.begin_request());
    write_blocked.state.write_blocked.store(true, Ordering::Relaxed);
    slow.state.write_blocked.store(true, Ordering::Relaxed);
    // The time starts with the first sweep that finds the connection blocked.
    assert_eq!(order_after(&connections, &write_blocked.state, 5), CloseReason::None);
    slow.state.wrote.store(true, Ordering::Relaxed);
    assert_eq!(order_after(&connections, &write_blocked.state, 1), CloseReason::UnreadAnswer);
    assert_eq!(order_after(&connections, &slow.state, 4), CloseReason::None);
    assert_eq!(order_after(&connections, &slow.state, 1), CloseReason::UnreadAnswer);
    assert_eq!(
        order_after(&connections, &idle.state, 1000),
        CloseReason::None,
        "a stream without news"
    );
}

/// An HTTP/2 client can block one stream and use others, so only written response bytes count.
#[test]
fn an_answer_held_up_by_flow_control_is_unread_too() {
    let connections = connections();
    let (held_up, reading) = (connections.add(HERE), connections.add(HERE));
    let (one, two) = (held_up.state.begin_request(), reading.state.begin_request());
    held_up.state.set_protocol(true);
    reading.state.set_protocol(true);
    one.add_pending_write();
    two.add_pending_write();
    for _ in 0..6 {
        held_up.state.wrote.store(true, Ordering::Relaxed);
        two.note_progress();
        connections.sweep(TICK, HEAD, WRITE);
    }
    assert_eq!(held_up.state.close_reason(), CloseReason::UnreadAnswer);
    two.remove_pending_write();
    assert_eq!(order_after(&connections, &reading.state, 100), CloseReason::None);
}

/// Each chunk of a response is tracked, not only the last: HTTP/2 polls the next chunk before it
/// has written the current chunk.
#[test]
fn every_part_of_an_answer_shows_whether_it_is_read() {
    let connections = connections();
    let entry = connections.add(HERE);
    entry.state.set_protocol(true);
    let chunks = Box::new(["ab", "cd", "ef"].map(Bytes::from));
    let held = Some(Hold::none(entry.state.begin_request()));
    let mut body = Box::pin(ResponseBody::Spliced { chunks, held });
    let mut cx = Context::from_waker(Waker::noop());
    for _ in 0..3 {
        let Poll::Ready(Some(Ok(frame))) = body.as_mut().poll_frame(&mut cx) else {
            panic!("no part")
        };
        let mut chunk = frame.into_data().ok().unwrap();
        assert_eq!(entry.state.pending_writes.load(Ordering::Relaxed), 1);
        chunk.advance(1);
        assert!(entry.state.write_progress.swap(false, Ordering::Relaxed));
    }
    assert_eq!(entry.state.pending_writes.load(Ordering::Relaxed), 0);
    assert_eq!(entry.state.active.load(Ordering::Relaxed), 0);
}

/// New requests are no proof that responses are read.
#[test]
fn requests_do_not_keep_a_client_that_reads_nothing() {
    let connections = connections();
    let entry = connections.add(HERE);
    entry.state.set_protocol(true);
    let one = entry.state.begin_request();
    one.add_pending_write();
    for _ in 0..6 {
        drop(entry.state.begin_request());
        connections.sweep(TICK, HEAD, WRITE);
    }
    assert_eq!(entry.state.close_reason(), CloseReason::UnreadAnswer);
}

#[test]
fn http2_is_told_to_go_away_before_it_is_cut() {
    let connections = connections();
    let entry = connections.add(HERE);
    entry.state.set_protocol(true);
    assert_eq!(order_after(&connections, &entry.state, 4), CloseReason::Graceful);
    assert_eq!(order_after(&connections, &entry.state, 1), CloseReason::Abort);
}

#[tokio::test(start_paused = true)]
async fn draining_counts_those_that_had_to_be_cut() {
    let connections = connections();
    for seconds in [1, 2, 60, 60] {
        let entry = connections.add(HERE);
        tokio::spawn(run_connection(
            entry,
            Box::pin(tokio::time::sleep(Duration::from_secs(seconds))),
        ));
    }
    assert_eq!(connections.drain(Duration::from_secs(10)).await, 2);
    assert!(connections.open.lock().is_empty());
    assert_eq!(connections.drain(Duration::ZERO).await, 0);
}
