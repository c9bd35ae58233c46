//! Queue entries and their answers.

use tokio::sync::oneshot;

use super::bounds::ConcurrencyError;
use crate::caller_id::CallerId;

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
