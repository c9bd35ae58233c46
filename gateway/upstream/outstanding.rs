//! Requests that may explain a server's silence: some servers process requests sequentially, so
//! that only the timeouts of their calls distinguish slow from hung.

use std::time::{Duration, Instant};

use lockgate_admission::clock;
use parking_lot::Mutex;

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
