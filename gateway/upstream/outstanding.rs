//! How long a server may be silent because of what it was asked: some servers do one thing at a time and answer nothing else
//! meanwhile, so that only the time of their calls tells the slow from the hung.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// What one connection was asked and has not answered.
#[derive(Debug, Default)]
pub(crate) struct Outstanding(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    waiting: usize,
    /// Somebody gave up waiting, and the server may still be at it.
    abandoned: bool,
    /// The longest time limit of what was asked.
    longest: Duration,
    /// When there was first something to do.
    since: Option<Instant>,
}

/// One request until its answer. Dropped without one, somebody gave up.
pub(crate) struct Unanswered<'a>(Option<&'a Outstanding>);

impl State {
    fn is_empty(&self) -> bool {
        self.waiting == 0 && !self.abandoned
    }
}

impl Outstanding {
    /// A request that the server may take so long for.
    pub(crate) fn begin(&self, limit: Duration) -> Unanswered<'_> {
        let mut state = self.0.lock();
        if state.is_empty() {
            *state = State { since: Some(Instant::now()), ..State::default() };
        }
        state.waiting += 1;
        state.longest = state.longest.max(limit);
        Unanswered(Some(self))
    }

    /// The server has answered something that it was asked last: what was given up is done.
    pub(crate) fn catch_up(&self) {
        self.0.lock().abandoned = false;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }

    /// Until when a server that was last heard at `heard` may be silent because of what it does.
    pub(crate) fn covers_until(&self, heard: Instant) -> Instant {
        let state = self.0.lock();
        match state.since {
            Some(since) if !state.is_empty() => heard.max(since) + state.longest,
            _ => heard,
        }
    }

    fn leave(&self, abandoned: bool) {
        let mut state = self.0.lock();
        state.waiting -= 1;
        state.abandoned |= abandoned;
    }
}

impl Unanswered<'_> {
    /// There was an answer, or there will certainly be none.
    pub(crate) fn end(mut self) {
        if let Some(outstanding) = self.0.take() {
            outstanding.leave(false);
        }
    }
}

impl Drop for Unanswered<'_> {
    fn drop(&mut self) {
        if let Some(outstanding) = self.0.take() {
            outstanding.leave(true);
        }
    }
}

#[cfg(test)]
mod tests;
