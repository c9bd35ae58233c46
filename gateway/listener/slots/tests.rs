//! Tests of `slots`.

#![allow(clippy::unwrap_used)]

use std::time::Duration;

use lockgate_admission::budget::Budget;

use super::*;
use crate::connection::CloseReason;

const TICK: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);

fn ip(last: u8) -> IpAddr {
    IpAddr::from([10, 0, 0, last])
}

#[test]
fn the_idlest_stranger_goes_and_nobody_who_is_busy() {
    let slots = Slots::new(3, 3);
    let connections = Connections::new(Arc::new(Budget::new(1000)));
    slots.add_loop(&connections);
    let held: Vec<_> = (1..=3).map(|n| slots.take(ip(n)).unwrap().unwrap()).collect();
    let (busy, known) = (connections.add(ip(1)), connections.add(ip(2)));
    let _active = busy.state.begin_request();
    drop(known.state.begin_request());
    known.state.mark_authenticated();
    connections.sweep(TICK, HOUR, HOUR);
    let (old, young) = (connections.add(ip(3)), connections.add(ip(3)));
    connections.sweep(TICK, HOUR, HOUR);
    let youngest = connections.add(ip(3));
    assert!(slots.take(ip(4)).unwrap().is_none());
    let orders =
        || [&busy, &known, &old, &young, &youngest].map(|entry| entry.state.close_reason());
    for _ in 0..3 {
        assert_eq!(slots.make_room(), 1);
    }
    assert_eq!(
        orders(),
        [
            CloseReason::None,
            CloseReason::None,
            CloseReason::Abort,
            CloseReason::None,
            CloseReason::None
        ],
        "one is about to end"
    );
    drop(old);
    assert_eq!(slots.make_room(), 1);
    assert_eq!(
        [&young, &youngest].map(|entry| entry.state.close_reason()),
        [CloseReason::Abort, CloseReason::None]
    );
    drop(young);
    assert_eq!(slots.make_room(), 1);
    assert_eq!(youngest.state.close_reason(), CloseReason::Abort);
    drop(youngest);
    assert_eq!(slots.make_room(), 0, "a known one may rest for a while");
    for _ in 0..10 {
        connections.sweep(TICK, HOUR, HOUR);
    }
    assert_eq!(slots.make_room(), 1);
    assert_eq!(
        [&busy, &known].map(|entry| entry.state.close_reason()),
        [CloseReason::None, CloseReason::Graceful]
    );
    drop(held);
    assert!(slots.take(ip(4)).unwrap().is_some());
}

#[test]
fn one_address_has_a_bound_of_its_own() {
    let slots = Slots::new(10, 2);
    let connections = Connections::new(Arc::new(Budget::new(1000)));
    slots.add_loop(&connections);
    let mapped: IpAddr = "::ffff:10.0.0.1".parse().unwrap();
    let held = [slots.take(ip(1)).unwrap().unwrap(), slots.take(mapped).unwrap().unwrap()];
    let (one, other) = (connections.add(ip(1)), connections.add(ip(2)));
    let active = one.state.begin_request();
    assert_eq!(
        slots.take(ip(1)).err(),
        Some(AddressFull { retry_after: None }),
        "nobody knows how long it is busy"
    );
    assert!(slots.take(ip(2)).unwrap().is_some());
    drop(active);
    assert!(slots.take(ip(1)).unwrap().is_some(), "an idle one of the same address makes room");
    assert_eq!(
        (one.state.close_reason(), other.state.close_reason()),
        (CloseReason::Abort, CloseReason::None)
    );
    drop(held);
    assert!(slots.addresses.lock().is_empty());
}

/// Idle authenticated connections may be evicted later; until then the address is full, and
/// `retry_after` is the remaining time.
#[test]
fn whoever_is_refused_hears_when_one_may_go() {
    let slots = Slots::new(10, 2);
    let connections = Connections::new(Arc::new(Budget::new(1000)));
    slots.add_loop(&connections);
    let _held = [slots.take(ip(1)).unwrap().unwrap(), slots.take(ip(1)).unwrap().unwrap()];
    let known = [connections.add(ip(1)), connections.add(ip(1))];
    for entry in &known {
        drop(entry.state.begin_request());
        entry.state.mark_authenticated();
    }
    let _busy = known[0].state.begin_request();
    for _ in 0..4 {
        connections.sweep(TICK, HOUR, HOUR);
    }
    let retry_after = Some(Duration::from_secs(7));
    assert_eq!(
        slots.take(ip(1)).err(),
        Some(AddressFull { retry_after }),
        "three of ten seconds are over"
    );
}

/// A burst of connections evicts no more than it needs.
#[test]
fn a_burst_ends_no_more_than_it_needs() {
    let slots = Slots::new(100, 4);
    let connections = Connections::new(Arc::new(Budget::new(1000)));
    slots.add_loop(&connections);
    let mut held = Vec::new();
    let mut open = Vec::new();
    for _ in 0..7 {
        held.push(slots.take(ip(1)).unwrap().unwrap());
        open.push(connections.add(ip(1)));
    }
    let orders: Vec<CloseReason> = open.iter().map(|entry| entry.state.close_reason()).collect();
    assert_eq!(orders, [[CloseReason::Abort; 3].as_slice(), &[CloseReason::None; 4]].concat());
}
