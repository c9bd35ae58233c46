//! Bounds, charging and errors of a concurrency limit.

use tokio::sync::oneshot;

use crate::caller_id::CallerId;

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

pub(super) type Answer = Result<(), ConcurrencyError>;

pub(super) struct Waiter {
    pub(super) ticket: u64,
    pub(super) answer: oneshot::Sender<Answer>,
}

/// An answer to be sent after the lock is released, because the woken task may run at once.
pub(super) struct Notice {
    pub(super) caller: CallerId,
    pub(super) to: oneshot::Sender<Answer>,
    pub(super) answer: Answer,
}
