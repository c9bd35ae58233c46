//! Memory of exchanges: large futures that live for a moment. It goes from one to the next, so that
//! an exchange leaves no hole in the heap, which a connection that stays open would fill, and hyper
//! keeps no room for one in every connection.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use parking_lot::Mutex;
use tokio_util::sync::ReusableBoxFuture;

/// Boxes that are kept for the next exchanges.
const KEPT: usize = 64;

/// See the module.
pub(crate) struct FuturePool<T> {
    free: Mutex<Vec<ReusableBoxFuture<'static, T>>>,
}

/// A future in a box of a pool. The box goes back when the future is done.
pub(crate) struct PooledFuture<T> {
    pool: Arc<FuturePool<T>>,
    future: Option<ReusableBoxFuture<'static, T>>,
}

impl<T> FuturePool<T> {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { free: Mutex::default() })
    }

    pub(crate) fn run(
        self: &Arc<Self>,
        future: impl Future<Output = T> + Send + 'static,
    ) -> PooledFuture<T> {
        let kept = self.free.lock().pop();
        let future = match kept {
            Some(mut kept) => {
                kept.set(future);
                kept
            }
            None => ReusableBoxFuture::new(future),
        };
        PooledFuture { pool: Arc::clone(self), future: Some(future) }
    }

    fn keep(&self, done: ReusableBoxFuture<'static, T>) {
        let mut free = self.free.lock();
        if free.len() < KEPT {
            free.push(done);
        }
    }
}

impl<T> Future for PooledFuture<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let Some(future) = &mut self.future else { return Poll::Pending };
        let output = ready!(future.poll(cx));
        if let Some(done) = self.future.take() {
            self.pool.keep(done);
        }
        Poll::Ready(output)
    }
}

#[cfg(test)]
mod tests;
