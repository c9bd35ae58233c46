//! Histograms of durations with fixed buckets, in atomics or as counts.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use prometheus::proto;

/// Upper bounds in microseconds; a further bucket takes longer durations.
type UpperBounds = [u64; 15];

/// Bounds for calls: 1 ms to 60 s.
const BOUNDS: UpperBounds = [
    1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000,
    5_000_000, 10_000_000, 30_000_000, 60_000_000,
];

/// Bounds advised by the OpenTelemetry conventions for MCP, 10 ms to 300 s, and an hour for
/// sessions.
pub(crate) const CONVENTIONS: UpperBounds = [
    10_000,
    20_000,
    50_000,
    100_000,
    200_000,
    500_000,
    1_000_000,
    2_000_000,
    5_000_000,
    10_000_000,
    30_000_000,
    60_000_000,
    120_000_000,
    300_000_000,
    3_600_000_000,
];

#[derive(Debug)]
pub(crate) struct Histogram {
    bounds: &'static UpperBounds,
    buckets: [AtomicU64; BOUNDS.len() + 1],
    /// Microseconds: wraps after 580 000 years.
    sum: AtomicU64,
}

/// Counts of a histogram, or their difference between two points in time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    buckets: [u64; BOUNDS.len() + 1],
    /// Microseconds.
    pub(crate) sum: u64,
}

impl Counts {
    /// Returns the difference to an earlier point in time.
    pub(crate) fn since(&self, earlier: &Self) -> Self {
        let mut added = self.clone();
        for (bucket, before) in added.buckets.iter_mut().zip(earlier.buckets) {
            *bucket = bucket.saturating_sub(before);
        }
        added.sum = self.sum.saturating_sub(earlier.sum);
        added
    }

    pub(crate) fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// Returns the mean, or `None` without observations.
    pub(crate) fn average(&self) -> Option<Duration> {
        Some(Duration::from_micros(self.sum.checked_div(self.count())?))
    }

    /// Returns the duration that `percent` of the observations do not exceed, interpolated linearly
    /// in a bucket. Observations beyond the last bound count as that bound.
    pub(crate) fn percentile(&self, percent: u64) -> Option<Duration> {
        let count = self.count();
        if count == 0 {
            return None;
        }
        let wanted = find_rank(count, percent);
        let mut below = 0;
        let mut lower = 0;
        for (upper, many) in BOUNDS.iter().zip(self.buckets) {
            let many = u128::from(many);
            if below + many >= wanted {
                let width = u128::from(upper - lower);
                let inside = u64::try_from(width * (wanted - below) / many).unwrap_or(0);
                return Some(Duration::from_micros(lower + inside));
            }
            below += many;
            lower = *upper;
        }
        Some(Duration::from_micros(lower))
    }
}

/// Returns the number, from 1, of the observation that `percent` do not exceed.
fn find_rank(count: u64, percent: u64) -> u128 {
    (u128::from(count) * u128::from(percent)).div_ceil(100).max(1)
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new(&BOUNDS)
    }
}

impl Histogram {
    pub(crate) fn new(bounds: &'static UpperBounds) -> Self {
        Self { bounds, buckets: Default::default(), sum: AtomicU64::new(0) }
    }

    pub(crate) fn counts(&self) -> Counts {
        let sum = self.sum.load(Relaxed);
        Counts { buckets: self.buckets.each_ref().map(|bucket| bucket.load(Relaxed)), sum }
    }

    pub(crate) fn observe(&self, duration: Duration) {
        let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        self.buckets[self.bounds.partition_point(|bound| *bound < micros)].fetch_add(1, Relaxed);
        self.sum.fetch_add(micros, Relaxed);
    }

    /// Returns a snapshot for Prometheus. The count is the sum of the buckets, so that both agree
    /// during updates.
    pub(crate) fn snapshot(&self) -> proto::Histogram {
        let counts = self.counts();
        let mut snapshot = proto::Histogram::default();
        snapshot.set_sample_count(counts.count());
        snapshot.set_sample_sum(counts.sum as f64 / 1e6);
        let mut below = 0;
        let buckets = self.bounds.iter().zip(counts.buckets).map(|(bound, observed)| {
            below += observed;
            let mut bucket = proto::Bucket::default();
            bucket.set_upper_bound(*bound as f64 / 1e6);
            bucket.set_cumulative_count(below);
            bucket
        });
        snapshot.set_bucket(buckets.collect());
        snapshot
    }
}

// Counts of call durations in fixed buckets, each bound √2 times the previous. A percentile is the
// geometric mean of its bucket's bounds, so that it differs from the exact value by at most 19 %
// from 0.5 ms to 65 s. Shorter durations count as 0.5 ms, and longer ones as 65 s.

/// The number of buckets. The last one has no upper bound.
pub const DURATION_BUCKETS: usize = 36;

/// Counts of durations by bucket.
pub type DurationCounts = [u64; DURATION_BUCKETS];

/// Upper bounds in microseconds.
const CALL_BOUNDS: [u64; DURATION_BUCKETS - 1] = make_bounds();

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
    CALL_BOUNDS.partition_point(|bound| *bound < micros)
}

/// Returns the duration that `percent` of the observations do not exceed, or `None` without
/// observations.
pub fn estimate_percentile(counts: &DurationCounts, percent: u64) -> Option<Duration> {
    let wanted = find_rank(counts.iter().sum(), percent);
    let mut seen = 0;
    let bucket = counts.iter().position(|many| {
        seen += u128::from(*many);
        seen >= wanted
    })?;
    let last = CALL_BOUNDS.len() - 1;
    let micros = match bucket {
        0 => CALL_BOUNDS[0],
        bucket if bucket > last => CALL_BOUNDS[last],
        bucket => (CALL_BOUNDS[bucket - 1] * CALL_BOUNDS[bucket]).isqrt(),
    };
    Some(Duration::from_micros(micros))
}

#[cfg(test)]
mod tests;
