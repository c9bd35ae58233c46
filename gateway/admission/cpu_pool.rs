//! A pool of threads for CPU-bound work that would block other tasks. Concurrency is limited, and
//! shared fairly by the time that each caller's work takes. Also starts the tasks of the runtime.

use std::panic::resume_unwind;
use std::pin::Pin;
use std::sync::Arc;

use tokio::task::JoinHandle;

use crate::{Bounds, CallerId, Charge, ConcurrencyError, ConcurrencyLimit, Permit};

/// A limited pool of threads for CPU-bound work.
pub struct CpuPool(Arc<ConcurrencyLimit>);

/// A permit to run a piece of work on a thread of the pool.
pub struct Turn {
    _permit: Permit,
}

impl CpuPool {
    pub fn new(bounds: Bounds) -> Self {
        Self(ConcurrencyLimit::new(bounds, Charge::Time, None))
    }

    /// Waits for the caller's turn.
    ///
    /// # Errors
    /// [`ConcurrencyError`]: the queue is full.
    pub async fn turn(&self, caller: CallerId) -> Result<Turn, ConcurrencyError> {
        let _permit = self.0.acquire(caller).await?;
        Ok(Turn { _permit })
    }

    /// Returns the pool's concurrency limit.
    pub fn limit(&self) -> &ConcurrencyLimit {
        &self.0
    }
}

impl Turn {
    /// Runs the work and returns its result. The work is completed even if this future is dropped.
    pub async fn run<T: Send + 'static>(self, work: impl FnOnce() -> T + Send + 'static) -> T {
        let done = tokio::task::spawn_blocking(move || {
            let _turn = self;
            work()
        });
        match done.await {
            Ok(result) => result,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => resume_unwind(panic),
                // The runtime is shutting down and drops this task, too.
                Err(_) => std::future::pending().await,
            },
        }
    }
}

/// Spawns a task, as [`tokio::spawn`] does. The future is boxed without its type, because the
/// runtime's code for a task is compiled once per type of future.
///
/// # Panics
/// Outside of a runtime.
pub fn spawn<T: Send + 'static>(future: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
    let boxed: Pin<Box<dyn Future<Output = T> + Send>> = Box::pin(future);
    tokio::spawn(boxed)
}

#[cfg(test)]
mod tests;
