//! Blocking work of built-in tools: on threads of its own, so many at a time, and told to stop when
//! its call is dropped.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Semaphore;

use crate::tool::ToolError;

/// The places of one server.
#[derive(Clone)]
pub(crate) struct BlockingPool(Arc<Semaphore>);

/// Whether the work is still wanted.
#[derive(Clone, Default)]
pub(crate) struct CancellationToken(Arc<AtomicBool>);

/// Says so when it is dropped.
struct Guard(CancellationToken);

impl BlockingPool {
    pub(crate) fn new(concurrent: usize) -> Self {
        Self(Arc::new(Semaphore::new(concurrent.max(1))))
    }

    /// Waits for a place and does the work there. Work that goes on after its call was dropped
    /// keeps its place.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&CancellationToken) -> Result<T, ToolError> + Send + 'static,
    ) -> Result<T, ToolError> {
        let Ok(place) = Arc::clone(&self.0).acquire_owned().await else {
            return Err(ToolError::new("the gateway is stopping"));
        };
        let stop = CancellationToken::default();
        let guard = Guard(stop.clone());
        let done = tokio::task::spawn_blocking(move || {
            let _place = place;
            stop.check()?;
            work(&stop)
        });
        let result = match done.await {
            Ok(result) => result,
            Err(_) => Err(ToolError::new("the work has ended without a result")),
        };
        drop(guard);
        result
    }
}

impl CancellationToken {
    /// An error as soon as nobody waits for the result any more.
    pub(crate) fn check(&self) -> Result<(), ToolError> {
        if self.0.load(Ordering::Relaxed) {
            Err(ToolError::new("the call was cancelled"))
        } else {
            Ok(())
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.0.store(true, Ordering::Relaxed);
    }
}
