//! Open questions of a server on a connection, which the server can cancel.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::{AbortHandle, abortable};
use lockgate_protocol::jsonrpc::Request;
use lockgate_protocol::key::Key;
use parking_lot::Mutex;

use crate::BoxFuture;

/// Open questions by their id as JSON text.
#[derive(Default)]
pub(crate) struct OpenQuestions(Mutex<HashMap<Bytes, AbortHandle>>);

/// Keeps a question open until dropped.
struct Open {
    questions: Arc<OpenQuestions>,
    id: Bytes,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.questions.0.lock().remove(&self.id);
    }
}

impl OpenQuestions {
    pub(crate) fn len(&self) -> usize {
        self.0.lock().len()
    }

    pub(crate) fn contains(&self, id: &[u8]) -> bool {
        self.0.lock().contains_key(id)
    }

    /// Awaits the answer to a question, which is open until then; `None` if it is cancelled.
    pub(crate) fn answer(
        self: &Arc<Self>,
        id: Bytes,
        answer: BoxFuture<'static, Bytes>,
    ) -> impl Future<Output = Option<Bytes>> + Send + use<> {
        let (answer, handle) = abortable(answer);
        self.0.lock().insert(id.clone(), handle);
        let open = Open { questions: Arc::clone(self), id };
        async move {
            let answered = answer.await.ok();
            drop(open);
            answered
        }
    }

    /// Handles a cancellation of the server; false if it names no open question.
    pub(crate) fn take_back(&self, note: &Request) -> bool {
        let question = note.param(Key::RequestId).and_then(|id| self.0.lock().remove(id));
        question.inspect(AbortHandle::abort).is_some()
    }

    pub(crate) fn abort_all(&self) {
        let questions = std::mem::take(&mut *self.0.lock());
        questions.values().for_each(AbortHandle::abort);
    }
}
