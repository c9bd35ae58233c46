//! Tests of `call_durations`: bounds, and percentiles compared with exact values.

use super::*;

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
    for (index, bound) in BOUNDS.iter().enumerate() {
        assert_eq!(find_bucket(Duration::from_micros(*bound)), index);
        assert_eq!(find_bucket(Duration::from_micros(bound + 1)), index + 1);
    }
    assert_eq!(find_bucket(Duration::MAX), DURATION_BUCKETS - 1);
    assert_eq!((BOUNDS[0], BOUNDS[DURATION_BUCKETS - 2]), (500, 65_536_000));
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
