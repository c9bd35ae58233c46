//! A question that waits for the answer of a session's client.

use bytes::Bytes;
use lockgate_upstream::QuestionError;
use tokio::sync::oneshot;

use crate::answers::Question;

/// See the module.
pub(super) struct Asked {
    pub(super) question: Question,
    pub(super) waiting: oneshot::Sender<Result<Bytes, QuestionError>>,
}
