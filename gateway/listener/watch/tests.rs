//! Tests of `watch`.

#![allow(clippy::unwrap_used)]

use std::task::Context;

use bytes::{Buf, Bytes};
use http_body::Body;
use http_body_util::Full;
use lockgate_admission::budget::Hold;

use super::*;
use crate::outflow::Outflow;

const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
const TICK: Duration = Duration::from_secs(1);
const HEAD: Duration = Duration::from_secs(3);
const WRITE: Duration = Duration::from_secs(5);

fn connections() -> Arc<Connections> {
    Connections::new(Arc::new(Budget::new(1000)))
}

fn order_after(connections: &Connections, pulse: &Pulse, sweeps: u32) -> Order {
    for _ in 0..sweeps {
        connections.sweep(TICK, HEAD, WRITE);
    }
    pulse.order()
}

#[test]
fn a_first_request_has_to_come_in_time() {
    let connections = connections();
    let entry = connections.add(HERE);
    let handshake = connections.add(HERE);
    entry.pulse.speaks(false);
    assert_eq!(order_after(&connections, &entry.pulse, 3), Order::Open);
    assert_eq!(order_after(&connections, &entry.pulse, 1), Order::Late);
    assert_eq!(handshake.pulse.order(), Order::Cut, "nobody would read it the words");
    assert_eq!(order_after(&connections, &entry.pulse, 1), Order::Cut);
}

#[test]
fn a_running_request_may_take_as_long_as_it_wants() {
    let connections = connections();
    let entry = connections.add(HERE);
    entry.pulse.speaks(false);
    let active = entry.pulse.begin();
    assert_eq!(order_after(&connections, &entry.pulse, 10_000), Order::Open);
    drop(active);
    assert_eq!(order_after(&connections, &entry.pulse, 100), Order::Open, "idle, but not for long");
    entry.pulse.heard.store(true, Ordering::Relaxed);
    assert_eq!(order_after(&connections, &entry.pulse, 4), Order::Open, "half a header block");
    assert_eq!(order_after(&connections, &entry.pulse, 1), Order::Late);
}

#[test]
fn an_idle_connection_is_closed_kindly_and_an_unread_one_is_ended() {
    let connections = connections();
    let (idle, stuck, writing) = (connections.add(HERE), connections.add(HERE), connections.add(HERE));
    drop(idle.pulse.begin());
    drop(writing.pulse.begin());
    let _active = stuck.pulse.begin();
    stuck.pulse.stuck.store(true, Ordering::Relaxed);
    for _ in 0..125 {
        writing.pulse.wrote.store(true, Ordering::Relaxed);
        connections.sweep(TICK, HEAD, WRITE);
    }
    assert_eq!(idle.pulse.order(), Order::Close);
    assert_eq!(stuck.pulse.order(), Order::Unread);
    assert_eq!(writing.pulse.order(), Order::Open);
}

/// `http.write_timeout` at its edge: what matters is that something is taken, however little and however long it takes.
#[test]
fn whoever_takes_something_in_time_stays() {
    let connections = connections();
    let (stuck, slow, idle) = (connections.add(HERE), connections.add(HERE), connections.add(HERE));
    let _active = [&stuck, &slow, &idle].map(|entry| entry.pulse.begin());
    stuck.pulse.stuck.store(true, Ordering::Relaxed);
    slow.pulse.stuck.store(true, Ordering::Relaxed);
    // The first sweep sees that it is stuck; the time runs from there.
    assert_eq!(order_after(&connections, &stuck.pulse, 5), Order::Open);
    slow.pulse.wrote.store(true, Ordering::Relaxed);
    assert_eq!(order_after(&connections, &stuck.pulse, 1), Order::Unread);
    assert_eq!(order_after(&connections, &slow.pulse, 4), Order::Open);
    assert_eq!(order_after(&connections, &slow.pulse, 1), Order::Unread);
    assert_eq!(order_after(&connections, &idle.pulse, 1000), Order::Open, "a stream without news");
}

/// On HTTP/2 a client can hold up one stream and go on with others: only what is written of answers counts.
#[test]
fn an_answer_held_up_by_flow_control_is_unread_too() {
    let connections = connections();
    let (held_up, reading) = (connections.add(HERE), connections.add(HERE));
    let (one, two) = (held_up.pulse.begin(), reading.pulse.begin());
    held_up.pulse.speaks(true);
    reading.pulse.speaks(true);
    one.owes();
    two.owes();
    for _ in 0..6 {
        held_up.pulse.wrote.store(true, Ordering::Relaxed);
        two.pays();
        connections.sweep(TICK, HEAD, WRITE);
    }
    assert_eq!(held_up.pulse.order(), Order::Unread);
    two.owes_no_more();
    assert_eq!(order_after(&connections, &reading.pulse, 100), Order::Open);
}

/// Each part of an answer, not only its last: HTTP/2 asks for the next part before it has written this one.
#[test]
fn every_part_of_an_answer_shows_whether_it_is_read() {
    let connections = connections();
    let entry = connections.add(HERE);
    entry.pulse.speaks(true);
    let chunks = ["ab", "cd", "ef"].map(Bytes::from);
    let held = Some(Hold::none(entry.pulse.begin()));
    let mut body = Box::pin(Outflow::<Full<Bytes>>::Spliced { chunks, held });
    let mut cx = Context::from_waker(Waker::noop());
    for _ in 0..3 {
        let Poll::Ready(Some(Ok(frame))) = body.as_mut().poll_frame(&mut cx) else { panic!("no part") };
        let mut chunk = frame.into_data().ok().unwrap();
        assert_eq!(entry.pulse.owed.load(Ordering::Relaxed), 1);
        chunk.advance(1);
        assert!(entry.pulse.paid.swap(false, Ordering::Relaxed));
    }
    assert_eq!(entry.pulse.owed.load(Ordering::Relaxed), 0);
    assert_eq!(entry.pulse.active.load(Ordering::Relaxed), 0);
}

/// To ask for more is not to read.
#[test]
fn requests_do_not_keep_a_client_that_reads_nothing() {
    let connections = connections();
    let entry = connections.add(HERE);
    entry.pulse.speaks(true);
    let one = entry.pulse.begin();
    one.owes();
    for _ in 0..6 {
        drop(entry.pulse.begin());
        connections.sweep(TICK, HEAD, WRITE);
    }
    assert_eq!(entry.pulse.order(), Order::Unread);
}

#[test]
fn http2_is_told_to_go_away_before_it_is_cut() {
    let connections = connections();
    let entry = connections.add(HERE);
    entry.pulse.speaks(true);
    assert_eq!(order_after(&connections, &entry.pulse, 4), Order::Close);
    assert_eq!(order_after(&connections, &entry.pulse, 1), Order::Cut);
}

#[tokio::test(start_paused = true)]
async fn draining_counts_those_that_had_to_be_cut() {
    let connections = connections();
    for seconds in [1, 2, 60, 60] {
        let entry = connections.add(HERE);
        tokio::spawn(run(entry, Box::pin(tokio::time::sleep(Duration::from_secs(seconds)))));
    }
    assert_eq!(connections.drain(Duration::from_secs(10)).await, 2);
    assert!(connections.open.lock().is_empty());
    assert_eq!(connections.drain(Duration::ZERO).await, 0);
}
