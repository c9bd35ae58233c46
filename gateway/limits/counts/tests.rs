//! Tests of `counts`, without a store.

use std::num::NonZeroU32;

use lockgate_policy::file::Key;
use lockgate_policy::{Quota, Subject, WhenAway};

use super::*;

fn quota(burst: u32, each: Duration) -> Quota {
    let burst = NonZeroU32::new(burst).unwrap();
    let rate = Some((NonZeroU32::MIN, each, burst));
    Quota { rate, concurrency: None, when_away: WhenAway::Local }
}

/// Calls `work` with the allowance of a caller.
fn with<T>(
    quota: &Quota,
    subject: &str,
    work: impl FnOnce(Allowance<'_>, &LimitKey<'_>) -> T,
) -> T {
    let subject = Subject { issuer: "key", subject, ..Subject::default() };
    let of = Allowance { policy: "p", quota };
    work(of, &LimitKey::new(&[Key::Principal], &subject, None))
}

fn count(counts: &Counts, quota: &Quota, tries: usize) -> usize {
    let pass = || with(quota, "ann", |of, key| counts.take(of, key)).is_ok();
    (0..tries).filter(|_| pass()).count()
}

const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn a_gateway_goes_ahead_of_the_store_by_a_part_of_what_is_left() {
    for (burst, ahead) in [(1, 1), (3, 3), (10, 4), (80, 10), (600, 75)] {
        let counts = Counts::new([0; 32]);
        let quota = quota(burst, HOUR);
        assert_eq!(count(&counts, &quota, 1_000), ahead, "{burst}");
        let reports = counts.collect(10);
        let [(id, report)] = reports.as_slice() else { panic!("{reports:?}") };
        assert_eq!((report.passed, report.burst), (ahead as i64, burst));
        assert_eq!(count(&counts, &quota, 10), 0, "not before it answers");
        // Others have used all but two.
        counts.answer(*id, 2_000);
        assert_eq!(count(&counts, &quota, 10), 2.min(burst as usize), "{burst}");
        let (id, _) = counts.collect(10).remove(0);
        counts.answer(id, -1_500);
        assert_eq!(count(&counts, &quota, 10), 0);
        let wait = with(&quota, "ann", |of, key| counts.take(of, key)).unwrap_err();
        assert!(wait > 2 * HOUR && wait <= HOUR * 5 / 2, "{wait:?}");
    }
}

#[test]
fn what_was_not_heard_is_reported_again() {
    let counts = Counts::new([0; 32]);
    let quota = quota(100, HOUR);
    assert_eq!(count(&counts, &quota, 5), 5);
    let (id, report) = counts.collect(10).remove(0);
    counts.restore(id);
    assert_eq!(counts.collect(10), [(id, report)]);
    assert!(counts.collect(10).is_empty());
}

#[test]
fn memory_is_bounded_and_what_is_whole_is_forgotten() {
    let counts = Counts::new([0; 32]);
    let quota = quota(1, Duration::from_millis(1));
    for caller in 0..MAX_KEYS + 10_000 {
        let _ = with(&quota, &caller.to_string(), |of, key| counts.take(of, key));
    }
    let most = MAX_KEYS + usize::try_from(SURPLUS_ENTRIES).unwrap();
    assert!((MAX_KEYS..=most).contains(&counts.len()), "{}", counts.len());
    while let Some((first, _)) = counts.collect(1).pop() {
        for (id, _) in counts.collect(usize::MAX) {
            counts.answer(id, 0);
        }
        counts.answer(first, 0);
    }
    std::thread::sleep(Duration::from_millis(5));
    counts.sweep();
    assert_eq!(counts.len(), 0);
}
