//! Whoever waits in a queue, and the answer that it gets.

use tokio::sync::oneshot;

use super::bounds::ConcurrencyError;
use crate::caller_id::CallerId;

pub(super) type Answer = Result<(), ConcurrencyError>;

/// Whoever waits in a queue.
pub(super) struct Waiter {
    pub(super) ticket: u64,
    pub(super) answer: oneshot::Sender<Answer>,
}

/// An answer that is given once the lock is free: the task that is woken may run at once.
pub(super) struct Notice {
    pub(super) caller: CallerId,
    pub(super) to: oneshot::Sender<Answer>,
    pub(super) answer: Answer,
}
