//! How long a server may be silent because of what it was asked: some servers do one thing at a
//! time and answer nothing else meanwhile, so that only the time of their calls tells the slow from
//! the hung.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// How long a call that nobody waits for any more explains silence: the time that a call has by
/// default.
const ABANDONED: Duration = Duration::from_secs(60);

/// What one connection was asked and has not answered.
#[derive(Debug, Default)]
pub(crate) struct Outstanding(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// How many requests wait, by their time limits.
    waiting: BTreeMap<Duration, usize>,
    /// The longest time that a request may still take which somebody gave up, because the server
    /// may be at it.
    abandoned: Option<Duration>,
    /// When there was first something to do.
    since: Option<Instant>,
}

/// One request until its answer. Dropped without one, somebody gave up.
pub(crate) struct Unanswered<'a> {
    outstanding: Option<&'a Outstanding>,
    limit: Duration,
}

impl State {
    fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.abandoned.is_none()
    }

    /// The longest time limit of what the server may be at.
    fn longest(&self) -> Duration {
        let waiting = self.waiting.last_key_value().map(|(limit, _)| *limit);
        waiting.max(self.abandoned).unwrap_or_default()
    }
}

impl Outstanding {
    /// A request that the server may take so long for.
    pub(crate) fn begin(&self, limit: Duration) -> Unanswered<'_> {
        let mut state = self.0.lock();
        if state.is_empty() {
            *state = State { since: Some(Instant::now()), ..State::default() };
        }
        *state.waiting.entry(limit).or_default() += 1;
        Unanswered { outstanding: Some(self), limit }
    }

    /// The server has answered something that it was asked last: what was given up is done.
    pub(crate) fn catch_up(&self) {
        self.0.lock().abandoned = None;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }

    /// Whether somebody still waits for an answer.
    pub(crate) fn is_waited_for(&self) -> bool {
        !self.0.lock().waiting.is_empty()
    }

    /// Until when a server that was last heard at `heard` may be silent because of what it does.
    pub(crate) fn covers_until(&self, heard: Instant) -> Instant {
        let state = self.0.lock();
        match state.since {
            Some(since) if !state.is_empty() => heard.max(since) + state.longest(),
            _ => heard,
        }
    }

    fn leave(&self, limit: Duration, is_abandoned: bool) {
        let mut state = self.0.lock();
        if let Some(count) = state.waiting.get_mut(&limit) {
            *count -= 1;
            if *count == 0 {
                state.waiting.remove(&limit);
            }
        }
        if is_abandoned {
            state.abandoned = state.abandoned.max(Some(limit.min(ABANDONED)));
        }
    }
}

impl Unanswered<'_> {
    /// There was an answer, or there will certainly be none.
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
