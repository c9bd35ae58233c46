//! Pending questions to a session's client, and elicitations that await completion.

use std::collections::{HashMap, VecDeque};

use bytes::Bytes;
use lockgate_upstream::QuestionError;
use tokio::sync::oneshot;

use lockgate_proxy::answers::Question;

/// Elicitations of a session that await completion; the oldest are dropped.
const MAX_ELICITATIONS: usize = 64;

/// Pending questions to a session's client.
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

/// Elicitations that send the client to a URL (`mode: url`). In 2025-11-25 each has an id, with
/// which its server later announces its completion. Clients see ids of ours; modern servers send
/// none.
#[derive(Default)]
pub(super) struct Elicitations(VecDeque<Elicitation>);

pub(super) struct Elicitation {
    /// The id that the client received.
    pub(super) shown: Box<str>,
    pub(super) slug: String,
    pub(super) own: String,
}

impl Elicitations {
    pub(super) fn add(&mut self, elicitation: Elicitation) {
        if self.0.len() >= MAX_ELICITATIONS {
            self.0.pop_front();
        }
        self.0.push_back(elicitation);
    }

    /// Removes a completed elicitation and returns the client's id for it.
    pub(super) fn complete(&mut self, slug: &str, own: &str) -> Option<Box<str>> {
        let at = self.0.iter().position(|open| open.slug == slug && open.own == own)?;
        Some(self.0.remove(at)?.shown)
    }
}
