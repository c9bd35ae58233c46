//! Questions that wait for the answers of a session's client.

use std::collections::{HashMap, VecDeque};

use bytes::Bytes;
use lockgate_upstream::QuestionError;
use tokio::sync::oneshot;

use crate::answers::Question;

/// Those of one session.
#[derive(Default)]
pub(super) struct Questions {
    pub(super) open: HashMap<u64, Asked>,
    /// The id of the latest.
    pub(super) last: u64,
    /// The latest that ended without an answer: one that comes is late, and no mistake.
    pub(super) cancelled: VecDeque<u64>,
}

/// One that is open.
pub(super) struct Asked {
    pub(super) question: Question,
    /// The stream that it was sent on.
    pub(super) stream: u64,
    /// It is asked again when the answer does not fit.
    pub(super) is_repeatable: bool,
    pub(super) waiting: oneshot::Sender<Result<Bytes, QuestionError>>,
}
