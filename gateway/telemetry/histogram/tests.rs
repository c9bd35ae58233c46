//! Tests of `histogram`: bounds, and percentiles compared with exact values.

use super::*;

/// Returns the upper bound of a bucket in seconds, and the observations at or below it.
fn bucket(snapshot: &proto::Histogram, at: usize) -> (f64, u64) {
    let bucket = &snapshot.get_bucket()[at];
    (bucket.upper_bound(), bucket.cumulative_count())
}

#[test]
fn bounds_are_inclusive_and_counts_cumulative() {
    let histogram = Histogram::default();
    for micros in [0, 1_000, 1_001, 60_000_000, 60_000_001] {
        histogram.observe(Duration::from_micros(micros));
    }
    let snapshot = histogram.snapshot();
    assert_eq!(bucket(&snapshot, 0), (0.001, 2));
    assert_eq!(bucket(&snapshot, 1), (0.0025, 3));
    assert_eq!(bucket(&snapshot, 14), (60.0, 4));
    assert_eq!(snapshot.get_sample_count(), 5);
    assert!((snapshot.get_sample_sum() - 120.002_002).abs() < 1e-9);
}

#[test]
fn an_absurd_duration_is_counted_in_the_last_bucket() {
    let histogram = Histogram::default();
    histogram.observe(Duration::MAX);
    assert_eq!(histogram.snapshot().get_sample_count(), 1);
    assert_eq!(bucket(&histogram.snapshot(), 14).1, 0);
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

fn count(durations: &[u64]) -> DurationCounts {
    let mut counts: DurationCounts = [0; DURATION_BUCKETS];
    for micros in durations {
        counts[find_bucket(Duration::from_micros(*micros))] += 1;
    }
    counts
}

#[test]
fn each_bound_is_in_its_bucket_and_the_next_microsecond_is_not() {
    assert_eq!(find_bucket(Duration::ZERO), 0);
    for (index, bound) in CALL_BOUNDS.iter().enumerate() {
        assert_eq!(find_bucket(Duration::from_micros(*bound)), index);
        assert_eq!(find_bucket(Duration::from_micros(bound + 1)), index + 1);
    }
    assert_eq!(find_bucket(Duration::MAX), DURATION_BUCKETS - 1);
    assert_eq!((CALL_BOUNDS[0], CALL_BOUNDS[DURATION_BUCKETS - 2]), (500, 65_536_000));
}

#[test]
fn percentiles_are_within_19_percent_of_the_exact_values() {
    let mut seed: u64 = 7;
    for spread in [2_000, 50_000, 3_000_000, 60_000_000] {
        let mut durations = Vec::new();
        for _ in 0..5000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            durations.push(500 + (seed >> 33) % spread);
        }
        durations.sort_unstable();
        let counts = count(&durations);
        for percent in [1, 50, 95, 99, 100] {
            let exact = durations[durations.len() * percent / 100 - 1] as f64;
            let found = estimate_percentile(&counts, percent as u64).unwrap();
            let ratio = found.as_micros() as f64 / exact;
            assert!((0.84..=1.19).contains(&ratio), "{percent} % of {spread}: {ratio}");
        }
    }
}

#[test]
fn values_outside_of_the_bounds_count_as_the_bounds() {
    assert_eq!(estimate_percentile(&[0; DURATION_BUCKETS], 50), None);
    let found = estimate_percentile(&count(&[1]), 50);
    assert_eq!(found, Some(Duration::from_micros(500)));
    let found = estimate_percentile(&count(&[1, 900_000_000]), 95);
    assert_eq!(found, Some(Duration::from_micros(65_536_000)));
}
