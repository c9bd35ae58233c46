//! Tests of `breaker`.

use super::*;

fn breaker() -> Breaker {
    Breaker::new(config::Breaker { failures: 3, cooldown: Duration::from_secs(30) })
}

#[test]
fn opens_at_the_edge_and_tries_one_call_after_the_cooldown() {
    let (b, now) = (breaker(), Instant::now());
    assert!(!b.failure(now) && !b.failure(now));
    assert_eq!(b.admit(now), Ok(()));
    assert!(b.failure(now));
    assert_eq!(b.admit(now), Err(Duration::from_secs(30)));
    let later = now + Duration::from_secs(30);
    assert_eq!(b.admit(later), Ok(()));
    assert!(b.admit(later).is_err(), "a second call waits for the first one's outcome");
    assert!(b.failure(later));
    assert!(b.admit(later).is_err());
    let again = later + Duration::from_secs(30);
    assert_eq!(b.admit(again), Ok(()));
    b.success();
    assert_eq!(b.admit(again), Ok(()));
}

#[test]
fn a_success_in_between_starts_the_count_anew() {
    let (b, now) = (breaker(), Instant::now());
    b.failure(now);
    b.failure(now);
    b.success();
    assert!(!b.failure(now) && !b.failure(now) && b.failure(now));
}

#[test]
fn a_cancelled_try_lets_the_next_call_try() {
    let (b, now) = (breaker(), Instant::now());
    for _ in 0..3 {
        b.failure(now);
    }
    let later = now + Duration::from_secs(30);
    assert_eq!(b.admit(later), Ok(()));
    b.abandon(later);
    assert_eq!(b.admit(later), Ok(()));
}
