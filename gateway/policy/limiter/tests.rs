//! Tests of `limiter`.

use super::pace::{CHECK_EVERY, MAX_KEYS, SHARED_ALLOWANCES};
use super::*;

fn quota(per_second: u32, concurrency: Option<u32>) -> Quota {
    let rate = NonZeroU32::new(per_second).map(|n| (n, Duration::from_secs(3600), n));
    Quota { rate, concurrency, when_away: WhenAway::Local }
}

#[test]
fn memory_is_bounded_and_the_surplus_shares() {
    let limiter = Local::new();
    let quota = quota(1, None);
    for key in 0..MAX_KEYS as u64 + 2 * u64::from(CHECK_EVERY) {
        let _ = limiter.bucket("p", &quota).take(key);
    }
    let bucket = limiter.bucket("p", &quota);
    let known = bucket.pace.as_ref().map_or(0, |pace| pace.len());
    assert!(known <= MAX_KEYS + 2 * CHECK_EVERY as usize + SHARED_ALLOWANCES as usize, "{known}");
    // Far more callers than shared allowances, most of which are used up.
    let passed =
        (0..20_000).filter(|n| limiter.bucket("p", &quota).take(10_000_000 + n).is_ok()).count();
    assert!(passed <= SHARED_ALLOWANCES as usize, "{passed}");
}

#[test]
fn places_are_given_back_however_a_request_ends() {
    let limiter = Local::new();
    let quota = quota(0, Some(2));
    let held: Vec<_> = (0..2).map(|_| limiter.bucket("p", &quota).take(7).unwrap()).collect();
    assert_eq!(
        limiter.bucket("p", &quota).take(7).unwrap_err(),
        Reached::Concurrency(CONCURRENCY_WAIT)
    );
    assert!(limiter.bucket("p", &quota).take(8).is_ok());
    drop(held);
    assert!(limiter.bucket("p", &quota).take(7).is_ok());
    assert_eq!(limiter.bucket("p", &quota).running.len(), 0);
}

#[test]
fn what_is_given_back_is_there_again_and_never_more_than_all() {
    let limiter = Local::new();
    let quota = quota(2, None);
    let took =
        |tries: usize| (0..tries).filter(|_| limiter.bucket("p", &quota).take(7).is_ok()).count();
    limiter.give_back_for("p", &quota, 7);
    assert_eq!(took(5), 2);
    limiter.give_back_for("p", &quota, 7);
    assert_eq!(took(5), 1);
    (0..9).for_each(|_| limiter.give_back_for("p", &quota, 7));
    assert_eq!(took(5), 2);
}

#[test]
fn another_allowance_of_the_same_name_takes_over_what_was_used() {
    let limiter = Local::new();
    let took = |quota: &Quota, tries: usize| {
        (0..tries).filter(|_| limiter.bucket("p", quota).take(7).is_ok()).count()
    };
    assert_eq!(
        (took(&quota(5, None), 9), took(&quota(7, None), 9), took(&quota(3, None), 9)),
        (5, 2, 0)
    );
    // A lower limit in between, or another number with the same result: the excess stays counted.
    assert_eq!(
        (took(&quota(7, None), 9), took(&quota(2, None), 1), took(&quota(1, None), 0)),
        (0, 0, 0)
    );
    limiter.sweep();
    assert_eq!(
        (took(&quota(5, None), 9), took(&quota(8, None), 9), took(&quota(3, None), 9)),
        (0, 1, 0)
    );
    // Removed and restored: neither the rate nor a permit is reset.
    let places = quota(0, Some(1));
    let held = limiter.bucket("p", &places).take(7).unwrap();
    assert_eq!(took(&quota(3, Some(1)), 9), 0);
    assert_eq!(
        limiter.bucket("p", &quota(9, Some(1))).take(7).unwrap_err(),
        Reached::Concurrency(CONCURRENCY_WAIT)
    );
    drop(held);
    assert_eq!(took(&quota(9, None), 9), 9 - 8);
    // After a change, the callers above the limit of tracked keys still share allowances.
    let many = quota(1, None);
    (0..MAX_KEYS as u64 + 2 * u64::from(CHECK_EVERY))
        .for_each(|key| drop(limiter.bucket("q", &many).take(key)));
    let passed = (0..20_000)
        .filter(|n| limiter.bucket("q", &quota(2, None)).take(10_000_000 + n).is_ok())
        .count();
    assert!(passed <= 2 * SHARED_ALLOWANCES as usize, "{passed}");
}

#[test]
fn what_remembers_nothing_is_forgotten_and_nothing_else() {
    let limiter = Local::new();
    let (slow, fast) = (
        quota(1, None),
        Quota {
            rate: Some((NonZeroU32::MAX, Duration::from_secs(1), NonZeroU32::MIN)),
            ..quota(1, None)
        },
    );
    let held = limiter.bucket("held", &quota(0, Some(1))).take(7).unwrap();
    for (name, quota) in [("slow", &slow), ("fast", &fast)] {
        limiter.bucket(name, quota).take(7).unwrap();
    }
    std::thread::sleep(Duration::from_millis(5));
    let names = || {
        limiter.sweep();
        let mut names: Vec<String> =
            limiter.buckets.read().keys().map(ToString::to_string).collect();
        names.sort();
        names
    };
    assert_eq!(names(), ["held", "slow"]);
    assert!(limiter.bucket("slow", &slow).take(7).is_err());
    drop(held);
    assert_eq!(names(), ["slow"]);
}

#[test]
fn beyond_the_most_policies_the_least_is_forgotten() {
    let limiter = Local::new();
    for key in 0..3 {
        limiter.bucket("first", &quota(1, None)).take(key).unwrap();
    }
    for n in 0..MAX_BUCKETS + 10 {
        limiter.bucket(&n.to_string(), &quota(1, None)).take(7).unwrap();
    }
    assert_eq!(limiter.buckets.read().len(), MAX_BUCKETS);
    assert!(limiter.bucket("first", &quota(1, None)).take(0).is_err());
}
