//! Requests that may explain a server's silence: some servers process requests sequentially, so
//! that only the timeouts of their calls distinguish slow from hung.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::future::{AbortHandle, abortable};
use lockgate_admission::clock;
use lockgate_protocol::jsonrpc::Request;
use lockgate_protocol::key::Key;
use parking_lot::Mutex;
use scopeguard::guard;

use crate::BoxFuture;

/// Time for which an abandoned call explains silence: the default timeout of a call.
const ABANDONED_CALL_PERIOD: Duration = Duration::from_secs(60);

/// The unanswered requests of a connection.
#[derive(Debug, Default)]
pub(crate) struct Outstanding(Mutex<OutstandingState>);

#[derive(Debug, Default)]
struct OutstandingState {
    /// Number of waiting requests by timeout, of which there are few. Keeps its memory.
    waiting: Vec<(Duration, usize)>,
    /// The longest time that an abandoned request may still take, because the server may be
    /// processing it.
    abandoned: Option<Duration>,
    /// When the first of the current requests was sent.
    since: Option<Instant>,
}

/// A request until its answer. Counts as abandoned if dropped before.
pub(crate) struct Unanswered<'a> {
    outstanding: Option<&'a Outstanding>,
    limit: Duration,
}

impl OutstandingState {
    fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.abandoned.is_none()
    }

    fn longest(&self) -> Duration {
        let waiting = self.waiting.iter().map(|(limit, _)| *limit).max();
        waiting.max(self.abandoned).unwrap_or_default()
    }
}

impl Outstanding {
    pub(crate) fn begin(&self, limit: Duration) -> Unanswered<'_> {
        let mut state = self.0.lock();
        if state.is_empty() {
            state.since = Some(clock::now());
        }
        match state.waiting.iter_mut().find(|(other, _)| *other == limit) {
            Some((_, count)) => *count += 1,
            None => state.waiting.push((limit, 1)),
        }
        Unanswered { outstanding: Some(self), limit }
    }

    /// Clears abandoned requests after the server has answered a later request.
    pub(crate) fn catch_up(&self) {
        self.0.lock().abandoned = None;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }

    /// Reports whether a caller is waiting for an answer.
    pub(crate) fn is_waited_for(&self) -> bool {
        !self.0.lock().waiting.is_empty()
    }

    /// Returns until when a server last heard at `heard` may be silent because of these requests.
    pub(crate) fn covers_until(&self, heard: Instant) -> Instant {
        let state = self.0.lock();
        match state.since {
            Some(since) if !state.is_empty() => heard.max(since) + state.longest(),
            _ => heard,
        }
    }

    fn leave(&self, limit: Duration, is_abandoned: bool) {
        let mut state = self.0.lock();
        if let Some(at) = state.waiting.iter().position(|(other, _)| *other == limit)
            && let Some((_, count)) = state.waiting.get_mut(at)
        {
            *count -= 1;
            if *count == 0 {
                state.waiting.swap_remove(at);
            }
        }
        if is_abandoned {
            state.abandoned = state.abandoned.max(Some(limit.min(ABANDONED_CALL_PERIOD)));
        }
    }
}

impl Unanswered<'_> {
    /// Removes a request that was answered, or certainly never will be.
    pub(crate) fn end(mut self) {
        if let Some(outstanding) = self.outstanding.take() {
            outstanding.leave(self.limit, false);
        }
    }
}

impl Drop for Unanswered<'_> {
    fn drop(&mut self) {
        if let Some(outstanding) = self.outstanding.take() {
            outstanding.leave(self.limit, true);
        }
    }
}

#[cfg(test)]
mod tests;

/// Open questions by their id as JSON text.
#[derive(Default)]
pub(crate) struct OpenQuestions(Mutex<HashMap<Bytes, AbortHandle>>);

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
        let open = guard(Arc::clone(self), move |questions| {
            questions.0.lock().remove(&id);
        });
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
