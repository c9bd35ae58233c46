//! How many may run and wait at once, by what callers take turns, and why there is no place.

/// How many at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    pub running: usize,
    pub waiting: usize,
}

/// By what callers take turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Charge {
    /// Everybody gets as many places.
    Turns,
    /// Everybody gets as much time.
    Time,
}

/// Why there is no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConcurrencyError {
    /// As many wait here as may.
    Full,
    /// As many wait in all limits of the pool as may.
    PoolFull,
    /// The queue was full, and somebody came who had less in it.
    Displaced,
}
