//! A circuit breaker: blocks calls to a server that keeps failing, and later admits one trial call.

use std::borrow::Cow;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::config;
use crate::status::BreakerState;

/// Counts consecutive transport failures.
pub(crate) struct Breaker {
    config: Mutex<config::Breaker>,
    state: Mutex<CircuitState>,
    /// The failure that last opened the breaker.
    why: Mutex<Cow<'static, str>>,
}

#[derive(Clone, Copy, Debug)]
enum CircuitState {
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
            state: Mutex::new(CircuitState::Closed { failures: 0 }),
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
            CircuitState::Closed { failures } => BreakerState::Closed { failures },
            CircuitState::Open { until } => BreakerState::Open {
                why: self.why.lock().to_string(),
                retry_in: until.saturating_duration_since(now),
            },
            CircuitState::Trying => BreakerState::Trying { why: self.why.lock().to_string() },
        }
    }

    /// Reports whether a call may be sent now; the error is the time to wait.
    pub(crate) fn admit(&self, now: Instant) -> Result<(), Duration> {
        let mut state = self.state.lock();
        match *state {
            CircuitState::Closed { .. } => Ok(()),
            CircuitState::Open { until } if now < until => Err(until - now),
            CircuitState::Open { .. } => {
                *state = CircuitState::Trying;
                Ok(())
            }
            CircuitState::Trying => Err(Duration::from_secs(1)),
        }
    }

    pub(crate) fn success(&self) {
        let mut state = self.state.lock();
        if !matches!(*state, CircuitState::Closed { failures: 0 }) {
            *state = CircuitState::Closed { failures: 0 };
        }
    }

    /// Records a transport failure. Returns true if this opened the breaker.
    pub(crate) fn failure(&self, now: Instant) -> bool {
        let config::Breaker { failures: most, cooldown } = *self.config.lock();
        let mut state = self.state.lock();
        let failures = match *state {
            CircuitState::Closed { failures } => failures + 1,
            CircuitState::Open { .. } => return false,
            CircuitState::Trying => most,
        };
        let opens = failures >= most;
        *state = if opens {
            CircuitState::Open { until: now + cooldown }
        } else {
            CircuitState::Closed { failures }
        };
        opens
    }

    /// Ends a trial call without a result (it was cancelled).
    pub(crate) fn abandon(&self, now: Instant) {
        let mut state = self.state.lock();
        if matches!(*state, CircuitState::Trying) {
            *state = CircuitState::Open { until: now };
        }
    }
}

#[cfg(test)]
mod tests;
