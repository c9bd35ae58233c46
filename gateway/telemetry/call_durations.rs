//! Counts of call durations in fixed buckets, each bound √2 times the previous. A percentile is the
//! geometric mean of its bucket's bounds, so that it differs from the exact value by at most 19 %
//! from 0.5 ms to 65 s. Shorter durations count as 0.5 ms, and longer ones as 65 s.

use std::time::Duration;

/// The number of buckets. The last one has no upper bound.
pub const DURATION_BUCKETS: usize = 36;

/// Counts of durations by bucket.
pub type DurationCounts = [u64; DURATION_BUCKETS];

/// Upper bounds in microseconds.
const BOUNDS: [u64; DURATION_BUCKETS - 1] = make_bounds();

const fn make_bounds() -> [u64; DURATION_BUCKETS - 1] {
    let mut bounds = [0; DURATION_BUCKETS - 1];
    let mut index = 0;
    while index < bounds.len() {
        let octave = index as u32 / 2;
        bounds[index] =
            if index.is_multiple_of(2) { 500 << octave } else { (707_107 << octave) / 1000 };
        index += 1;
    }
    bounds
}

/// Returns the bucket of a duration.
pub fn find_bucket(duration: Duration) -> usize {
    let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
    BOUNDS.partition_point(|bound| *bound < micros)
}

/// Returns the duration that `percent` of the observations do not exceed, or `None` without
/// observations.
pub fn estimate_percentile(counts: &DurationCounts, percent: u64) -> Option<Duration> {
    let count: u64 = counts.iter().sum();
    if count == 0 {
        return None;
    }
    let wanted = (u128::from(count) * u128::from(percent)).div_ceil(100).max(1);
    let mut seen = 0;
    let mut bucket = 0;
    for (index, many) in counts.iter().enumerate() {
        seen += u128::from(*many);
        bucket = index;
        if seen >= wanted {
            break;
        }
    }
    let last = BOUNDS.len() - 1;
    let micros = match bucket {
        0 => BOUNDS[0],
        bucket if bucket > last => BOUNDS[last],
        bucket => (BOUNDS[bucket - 1] * BOUNDS[bucket]).isqrt(),
    };
    Some(Duration::from_micros(micros))
}

#[cfg(test)]
mod tests;
