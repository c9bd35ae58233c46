//! Tests of `outstanding`.

use std::time::{Duration, Instant};

use super::Outstanding;

const LONG_TIMEOUT: Duration = Duration::from_secs(60);
const SHORT_TIMEOUT: Duration = Duration::from_secs(1);

#[test]
fn silence_is_covered_by_what_was_asked() {
    let (outstanding, heard) = (Outstanding::default(), Instant::now());
    assert_eq!(outstanding.covers_until(heard), heard);
    let first = outstanding.begin(LONG_TIMEOUT);
    let second = outstanding.begin(SHORT_TIMEOUT);
    assert!(outstanding.covers_until(heard) >= heard + LONG_TIMEOUT);
    // Later bytes of the server restart the time.
    let later = heard + Duration::from_secs(30);
    assert_eq!(outstanding.covers_until(later), later + LONG_TIMEOUT);
    first.end();
    second.end();
    assert_eq!(outstanding.covers_until(heard), heard);
    // Only the new request counts.
    let third = outstanding.begin(SHORT_TIMEOUT);
    assert_eq!(outstanding.covers_until(later), later + SHORT_TIMEOUT);
    third.end();
}

#[test]
fn what_was_given_up_covers_until_the_server_has_caught_up() {
    let (outstanding, heard) = (Outstanding::default(), Instant::now());
    drop(outstanding.begin(LONG_TIMEOUT));
    outstanding.begin(SHORT_TIMEOUT).end();
    assert!(outstanding.covers_until(heard) >= heard + LONG_TIMEOUT && !outstanding.is_empty());
    outstanding.catch_up();
    assert_eq!(outstanding.covers_until(heard), heard);
}

#[test]
fn a_call_that_nobody_waits_for_explains_no_longer_than_a_call_takes_by_default() {
    let (outstanding, heard) = (Outstanding::default(), Instant::now());
    let hour = Duration::from_secs(3600);
    let abandoned = outstanding.begin(hour);
    let waiting = outstanding.begin(SHORT_TIMEOUT);
    assert!(outstanding.covers_until(heard) >= heard + hour);
    drop(abandoned);
    let later = heard + hour;
    assert_eq!(outstanding.covers_until(later), later + LONG_TIMEOUT);
    waiting.end();
    assert_eq!(outstanding.covers_until(later), later + LONG_TIMEOUT);
    // Waiting callers keep their full timeout.
    let patient = outstanding.begin(hour);
    assert_eq!(outstanding.covers_until(later), later + hour);
    outstanding.catch_up();
    assert_eq!(outstanding.covers_until(later), later + hour);
    patient.end();
    assert_eq!(outstanding.covers_until(later), later);
}
