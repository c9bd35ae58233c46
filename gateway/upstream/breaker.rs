//! A circuit breaker: blocks calls to a server that keeps failing, and later admits one trial call.

use std::borrow::Cow;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::config;
use crate::status::BreakerState;

/// Counts consecutive transport failures.
pub(crate) struct Breaker {
    config: Mutex<config::Breaker>,
    state: Mutex<State>,
    /// The failure that last opened the breaker.
    why: Mutex<Cow<'static, str>>,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Closed {
        failures: u32,
    },
    Open {
        until: Instant,
    },
    /// A trial call is running.
    Trying,
}

impl Breaker {
    pub(crate) fn new(config: config::Breaker) -> Self {
        Self {
            config: Mutex::new(config),
            state: Mutex::new(State::Closed { failures: 0 }),
            why: Mutex::default(),
        }
    }

    pub(crate) fn configure(&self, config: config::Breaker) {
        *self.config.lock() = config;
    }

    /// Sets the failure that opened the breaker.
    pub(crate) fn because(&self, words: Cow<'static, str>) {
        *self.why.lock() = words;
    }

    pub(crate) fn state(&self, now: Instant) -> BreakerState {
        match *self.state.lock() {
            State::Closed { failures } => BreakerState::Closed { failures },
            State::Open { until } => BreakerState::Open {
                why: self.why.lock().to_string(),
                retry_in: until.saturating_duration_since(now),
            },
            State::Trying => BreakerState::Trying { why: self.why.lock().to_string() },
        }
    }

    /// Reports whether a call may be sent now; the error is the time to wait.
    pub(crate) fn admit(&self, now: Instant) -> Result<(), Duration> {
        let mut state = self.state.lock();
        match *state {
            State::Closed { .. } => Ok(()),
            State::Open { until } if now < until => Err(until - now),
            State::Open { .. } => {
                *state = State::Trying;
                Ok(())
            }
            State::Trying => Err(Duration::from_secs(1)),
        }
    }

    pub(crate) fn success(&self) {
        let mut state = self.state.lock();
        if !matches!(*state, State::Closed { failures: 0 }) {
            *state = State::Closed { failures: 0 };
        }
    }

    /// Records a transport failure. Returns true if this opened the breaker.
    pub(crate) fn failure(&self, now: Instant) -> bool {
        let config::Breaker { failures: most, cooldown } = *self.config.lock();
        let mut state = self.state.lock();
        let failures = match *state {
            State::Closed { failures } => failures + 1,
            State::Open { .. } => return false,
            State::Trying => most,
        };
        let opens = failures >= most;
        *state =
            if opens { State::Open { until: now + cooldown } } else { State::Closed { failures } };
        opens
    }

    /// Ends a trial call without a result (it was cancelled).
    pub(crate) fn abandon(&self, now: Instant) {
        let mut state = self.state.lock();
        if matches!(*state, State::Trying) {
            *state = State::Open { until: now };
        }
    }
}

#[cfg(test)]
mod tests;
