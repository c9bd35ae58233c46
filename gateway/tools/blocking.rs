//! Blocking work of built-in tools: on blocking threads, with a concurrency limit, and cancelled
//! when the call is dropped.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Duration, timeout};

use crate::tool::ToolError;

/// The concurrency limit of a server's blocking work.
#[derive(Clone, Debug)]
pub(crate) struct BlockingPool(Arc<Semaphore>);

pub(crate) struct BlockingPermit(OwnedSemaphorePermit);

/// Set once the caller no longer waits for the result.
#[derive(Clone, Default)]
pub(crate) struct CancellationToken(Arc<AtomicBool>);

struct Guard(CancellationToken);

impl BlockingPool {
    pub(crate) fn new(concurrent: usize) -> Self {
        Self(Arc::new(Semaphore::new(concurrent.max(1))))
    }

    /// Waits for a permit and runs the work.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&CancellationToken) -> Result<T, ToolError> + Send + 'static,
    ) -> Result<T, ToolError> {
        let permit = Arc::clone(&self.0).acquire_owned().await;
        let permit = permit.map_err(|_| ToolError::new("the gateway is stopping"))?;
        BlockingPermit(permit).run(work).await
    }

    /// Waits for a permit, but not longer than `limit`.
    pub(crate) async fn acquire(&self, limit: Duration) -> Option<BlockingPermit> {
        acquire_within(&self.0, limit).await.map(BlockingPermit)
    }
}

/// Waits for a permit, but not longer than `limit`.
pub(crate) async fn acquire_within(
    places: &Arc<Semaphore>,
    limit: Duration,
) -> Option<OwnedSemaphorePermit> {
    timeout(limit, Arc::clone(places).acquire_owned()).await.ok()?.ok()
}

impl BlockingPermit {
    /// Runs the work on a blocking thread. Work that outlives its dropped call keeps the permit.
    pub(crate) async fn run<T: Send + 'static>(
        self,
        work: impl FnOnce(&CancellationToken) -> Result<T, ToolError> + Send + 'static,
    ) -> Result<T, ToolError> {
        let stop = CancellationToken::default();
        let guard = Guard(stop.clone());
        let done = tokio::task::spawn_blocking(move || {
            let Self(_permit) = self;
            stop.check()?;
            work(&stop)
        });
        let result = done.await;
        drop(guard);
        result.map_err(|_| ToolError::new("the work has ended without a result"))?
    }
}

impl CancellationToken {
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Returns an error once the call was dropped.
    pub(crate) fn check(&self) -> Result<(), ToolError> {
        if self.is_set() { Err(ToolError::new("the call was cancelled")) } else { Ok(()) }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.0.store(true, Ordering::Relaxed);
    }
}
