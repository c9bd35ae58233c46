//! Tests of the schedule of list reads.

use super::*;

/// Announces a change every 10 ms for a minute; returns the times of reads in milliseconds.
fn readings(took: u64) -> Vec<u64> {
    let mut rereading = Rereading::new();
    let begin = Instant::now();
    let mut all = Vec::new();
    let mut free = 0;
    let at = |ms: u64| begin + Duration::from_millis(ms);
    for now in (0..60_000).step_by(10) {
        if now < free {
            continue;
        }
        rereading.announce(at(now));
        if rereading.due.is_some_and(|due| due <= at(now)) {
            all.push(now);
            free = now + took;
            rereading.read(at(now), at(now + took));
        }
    }
    all
}

#[test]
fn a_server_that_announces_without_end_is_read_once_a_second() {
    let fast = readings(10);
    assert_eq!(fast[0], 250, "the first change is read soon");
    assert!((58..=62).contains(&fast.len()), "{fast:?}");
    let slow = readings(3000);
    assert!((9..=11).contains(&slow.len()), "a slow one has as long a rest: {slow:?}");
}

#[test]
fn what_is_announced_after_a_reading_is_read_and_a_quiet_server_at_once() {
    let mut rereading = Rereading::new();
    let begin = Instant::now();
    let at = |ms: u64| begin + Duration::from_millis(ms);
    for turn in 0..8 {
        rereading.announce(at(turn * 2000));
        rereading.read(at(turn * 2000), at(turn * 2000));
    }
    assert_eq!(rereading.due, None);
    rereading.announce(at(14_001));
    assert_eq!(rereading.due, Some(at(15_000)), "the last change gets through");
    rereading.read(at(15_000), at(15_000));
    rereading.announce(at(25_000));
    assert_eq!(rereading.due, Some(at(25_250)));
    rereading.suspect(at(25_001));
    assert_eq!(rereading.due, Some(at(25_001)), "a server that may be gone is looked at now");
}
