//! Pending questions to a session's client.

use std::collections::{HashMap, VecDeque};

use bytes::Bytes;
use lockgate_upstream::QuestionError;
use tokio::sync::oneshot;

use crate::answers::Question;

#[derive(Default)]
pub(super) struct Questions {
    pub(super) open: HashMap<u64, Asked>,
    /// The id of the latest question.
    pub(super) last: u64,
    /// The latest questions that ended without an answer. An answer to such a question is late, not
    /// an error.
    pub(super) cancelled: VecDeque<u64>,
}

pub(super) struct Asked {
    pub(super) question: Question,
    /// The number of the stream that carried the question.
    pub(super) stream: u64,
    /// Set if the question is asked again after an unusable answer.
    pub(super) is_repeatable: bool,
    pub(super) waiting: oneshot::Sender<Result<Bytes, QuestionError>>,
}
