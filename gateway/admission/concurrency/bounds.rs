//! Bounds, charging and errors of a concurrency limit.

/// The number of permits and of queue entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    pub running: usize,
    pub waiting: usize,
}

/// The quantity that is shared fairly among callers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Charge {
    /// Callers get equal numbers of permits.
    Turns,
    /// Callers get equal amounts of time.
    Time,
}

/// The reason why a permit was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConcurrencyError {
    /// The queue of this limit is full.
    Full,
    /// The shared queue of the pool is full.
    PoolFull,
    /// Removed from a full queue in favour of a caller with fewer entries.
    Displaced,
}
