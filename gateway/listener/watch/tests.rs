//! Tests of `watch`.

#![allow(clippy::unwrap_used)]

use super::*;

const TICK: Duration = Duration::from_secs(1);
const HEAD: Duration = Duration::from_secs(3);

fn order_after(connections: &Connections, pulse: &Pulse, sweeps: u32) -> Order {
    for _ in 0..sweeps {
        connections.sweep(TICK, HEAD);
    }
    pulse.order()
}

#[test]
fn a_first_request_has_to_come_in_time() {
    let connections = Connections::new();
    let entry = connections.add();
    assert_eq!(order_after(&connections, &entry.pulse, 2), Order::Open);
    assert_eq!(order_after(&connections, &entry.pulse, 1), Order::Late);
    assert_eq!(order_after(&connections, &entry.pulse, 3), Order::Cut);
}

#[test]
fn a_running_request_may_take_as_long_as_it_wants() {
    let connections = Connections::new();
    let entry = connections.add();
    let active = entry.pulse.begin();
    assert_eq!(order_after(&connections, &entry.pulse, 10_000), Order::Open);
    drop(active);
    assert_eq!(order_after(&connections, &entry.pulse, 100), Order::Open, "idle, but not for long");
    entry.pulse.heard.store(true, Ordering::Relaxed);
    assert_eq!(order_after(&connections, &entry.pulse, 5), Order::Late, "half a header block");
}

#[test]
fn an_idle_connection_is_closed_kindly_and_a_stuck_one_is_cut() {
    let connections = Connections::new();
    let (idle, stuck, writing) = (connections.add(), connections.add(), connections.add());
    drop(idle.pulse.begin());
    drop(writing.pulse.begin());
    let _active = stuck.pulse.begin();
    stuck.pulse.stuck.store(true, Ordering::Relaxed);
    for _ in 0..125 {
        writing.pulse.wrote.store(true, Ordering::Relaxed);
        connections.sweep(TICK, HEAD);
    }
    assert_eq!(idle.pulse.order(), Order::Close);
    assert_eq!(stuck.pulse.order(), Order::Cut);
    assert_eq!(writing.pulse.order(), Order::Open);
}

#[test]
fn http2_is_told_to_go_away_before_it_is_cut() {
    let connections = Connections::new();
    let entry = connections.add();
    entry.pulse.is_http2();
    assert_eq!(order_after(&connections, &entry.pulse, 3), Order::Close);
    assert_eq!(order_after(&connections, &entry.pulse, 3), Order::Cut);
}

#[tokio::test(start_paused = true)]
async fn draining_counts_those_that_had_to_be_cut() {
    let connections = Connections::new();
    for seconds in [1, 2, 60, 60] {
        let entry = connections.add();
        tokio::spawn(run(entry, tokio::time::sleep(Duration::from_secs(seconds))));
    }
    assert_eq!(connections.drain(Duration::from_secs(10)).await, 2);
    assert!(connections.open.lock().is_empty());
    assert_eq!(connections.drain(Duration::ZERO).await, 0);
}
