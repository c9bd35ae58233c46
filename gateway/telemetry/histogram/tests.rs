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
