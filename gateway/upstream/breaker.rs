//! A circuit breaker: blocks calls to a server that keeps failing, and later admits one trial call.

use std::borrow::Cow;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::config;
use crate::status::BreakerState;

/// Counts consecutive transport failures.
pub(crate) struct Breaker {
    config: Mutex<config::Breaker>,
    state: Mutex<BreakerState>,
    /// The failure that last opened the breaker.
    why: Mutex<Cow<'static, str>>,
}

impl Breaker {
    pub(crate) fn new(config: config::Breaker) -> Self {
        Self {
            config: Mutex::new(config),
            state: Mutex::new(BreakerState::Closed { failures: 0 }),
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

    /// Returns the state, and the failure that last opened the breaker.
    pub(crate) fn state(&self) -> (BreakerState, Cow<'static, str>) {
        (*self.state.lock(), self.why.lock().clone())
    }

    /// Reports whether a call may be sent now; the error is the time to wait.
    pub(crate) fn admit(&self, now: Instant) -> Result<(), Duration> {
        let mut state = self.state.lock();
        match *state {
            BreakerState::Closed { .. } => Ok(()),
            BreakerState::Open { until } if now < until => Err(until - now),
            BreakerState::Open { .. } => {
                *state = BreakerState::Trying;
                Ok(())
            }
            BreakerState::Trying => Err(Duration::from_secs(1)),
        }
    }

    pub(crate) fn success(&self) {
        let mut state = self.state.lock();
        if !matches!(*state, BreakerState::Closed { failures: 0 }) {
            *state = BreakerState::Closed { failures: 0 };
        }
    }

    /// Records a transport failure. Returns true if this opened the breaker.
    pub(crate) fn failure(&self, now: Instant) -> bool {
        let config::Breaker { failures: most, cooldown } = *self.config.lock();
        let mut state = self.state.lock();
        let failures = match *state {
            BreakerState::Closed { failures } => failures + 1,
            BreakerState::Open { .. } => return false,
            BreakerState::Trying => most,
        };
        let opens = failures >= most;
        *state = if opens {
            BreakerState::Open { until: now + cooldown }
        } else {
            BreakerState::Closed { failures }
        };
        opens
    }

    /// Ends a trial call without a result (it was cancelled).
    pub(crate) fn abandon(&self, now: Instant) {
        let mut state = self.state.lock();
        if matches!(*state, BreakerState::Trying) {
            *state = BreakerState::Open { until: now };
        }
    }
}

#[cfg(test)]
mod tests;
