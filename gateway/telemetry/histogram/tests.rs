//! Tests of `histogram`.

use super::*;

#[test]
fn bounds_are_inclusive_and_counts_cumulative() {
    let histogram = Histogram::default();
    for micros in [0, 1_000, 1_001, 60_000_000, 60_000_001] {
        histogram.observe(Duration::from_micros(micros));
    }
    let snapshot = histogram.snapshot();
    assert_eq!(snapshot.buckets[0], (0.001, 2));
    assert_eq!(snapshot.buckets[1], (0.0025, 3));
    assert_eq!(snapshot.buckets[14], (60.0, 4));
    assert_eq!(snapshot.count, 5);
    assert!((snapshot.sum - 120.002_002).abs() < 1e-9);
}

#[test]
fn an_absurd_duration_is_counted_in_the_last_bucket() {
    let histogram = Histogram::default();
    histogram.observe(Duration::MAX);
    assert_eq!(histogram.snapshot().count, 1);
    assert_eq!(histogram.snapshot().buckets[14].1, 0);
}

#[test]
fn percentiles_lie_in_the_bucket_of_their_observation() {
    let histogram = Histogram::default();
    assert_eq!(histogram.counts().percentile(95), None);
    for _ in 0..90 {
        histogram.observe(Duration::from_millis(3));
    }
    let early = histogram.counts();
    for _ in 0..10 {
        histogram.observe(Duration::from_secs(2));
    }
    let all = histogram.counts();
    let between = |found: Option<Duration>, low: u64, high: u64| {
        let found = found.unwrap();
        assert!(found >= Duration::from_millis(low) && found <= Duration::from_millis(high));
    };
    between(all.percentile(50), 2, 5);
    between(all.percentile(90), 2, 5);
    between(all.percentile(95), 1000, 2500);
    between(all.since(&early).percentile(50), 1000, 2500);
    assert_eq!((all.count(), all.since(&early).count()), (100, 10));
    assert_eq!(all.average(), Some(Duration::from_micros(202_700)));
    let slow = Histogram::default();
    slow.observe(Duration::MAX);
    assert_eq!(slow.counts().percentile(50), Some(Duration::from_secs(60)));
}
