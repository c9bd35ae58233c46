//! Tests of `limiter`.

use super::*;

fn quota(per_second: u32, concurrency: Option<u32>) -> Quota {
    let rate = NonZeroU32::new(per_second).map(|n| (n, Duration::from_secs(3600), n));
    Quota { rate, concurrency }
}

#[test]
fn memory_is_bounded_and_the_surplus_shares() {
    let limiter = Local::new();
    let quota = quota(1, None);
    for key in 0..MAX_KEYS as u64 + 2 * u64::from(LOOK_EVERY) {
        let _ = limiter.take("p", &quota, key);
    }
    let bucket = limiter.bucket("p", &quota);
    let known = bucket.limiter.as_ref().map_or(0, |limiter| limiter.len());
    assert!(known <= MAX_KEYS + 2 * LOOK_EVERY as usize + SHARED as usize, "{known}");
    // Far more callers than shared allowances: most of them find theirs used up.
    let passed = (0..20_000).filter(|n| limiter.take("p", &quota, 10_000_000 + n).is_ok()).count();
    assert!(passed <= SHARED as usize, "{passed}");
}

#[test]
fn places_are_given_back_however_a_request_ends() {
    let limiter = Local::new();
    let quota = quota(0, Some(2));
    let held: Vec<_> = (0..2).map(|_| limiter.take("p", &quota, 7).unwrap()).collect();
    assert!(limiter.take("p", &quota, 7).unwrap_err().1);
    assert!(limiter.take("p", &quota, 8).is_ok());
    drop(held);
    assert!(limiter.take("p", &quota, 7).is_ok());
    assert_eq!(limiter.bucket("p", &quota).running.len(), 0);
}

#[test]
fn another_allowance_of_the_same_name_begins_anew() {
    let limiter = Local::new();
    assert!(limiter.take("p", &quota(1, None), 7).is_ok() && limiter.take("p", &quota(1, None), 7).is_err());
    assert!(limiter.take("p", &quota(2, None), 7).is_ok());
}
