//! Work that would hold up everything else on its thread, done on threads of its own: so much at
//! once, and fairly by the time that each caller's work takes.

use std::panic::resume_unwind;
use std::sync::Arc;

use crate::{Bounds, CallerId, Charge, ConcurrencyError, ConcurrencyLimit, Permit};

/// See the module.
pub struct Apart(Arc<ConcurrencyLimit>);

/// A thread that is free for one piece of work.
pub struct Turn {
    _permit: Permit,
}

impl Apart {
    #[must_use]
    pub fn new(bounds: Bounds) -> Self {
        Self(ConcurrencyLimit::new(bounds, Charge::Time, None))
    }

    /// Waits for the caller's turn.
    ///
    /// # Errors
    /// [`ConcurrencyError`]: too many wait.
    pub async fn turn(&self, caller: CallerId) -> Result<Turn, ConcurrencyError> {
        let _permit = self.0.acquire(caller).await?;
        Ok(Turn { _permit })
    }

    /// The places and who waits for them.
    #[must_use]
    pub fn limit(&self) -> &ConcurrencyLimit {
        &self.0
    }
}

impl Turn {
    /// Does the work and gives its result. It is done to its end even when nobody waits for it any
    /// more.
    pub async fn run<T: Send + 'static>(self, work: impl FnOnce() -> T + Send + 'static) -> T {
        let done = tokio::task::spawn_blocking(move || {
            let _turn = self;
            work()
        });
        match done.await {
            Ok(result) => result,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => resume_unwind(panic),
                // The runtime is going away, and everybody who waits with it.
                Err(_) => std::future::pending().await,
            },
        }
    }
}

#[cfg(test)]
mod tests;
