//! Memory of exchanges: large futures that live for a moment. It goes from one to the next, so that
//! an exchange leaves no hole in the heap, which a connection that stays open would fill, and hyper
//! keeps no room for one in every connection. A kept future waits for its next input where it is:
//! nothing large is moved for an exchange.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use parking_lot::Mutex;

/// Futures that are kept for the next exchanges.
const KEPT: usize = 64;

/// Makes a future that answers one input after the other.
type Start<I, T> = Box<dyn Fn(Arc<Exchanged<I, T>>) -> Loop + Send + Sync>;

/// A future that never ends.
type Loop = Pin<Box<dyn Future<Output = ()> + Send>>;

/// See the module.
pub(crate) struct FuturePool<I, T> {
    free: Mutex<Vec<Runner<I, T>>>,
    start: Start<I, T>,
}

/// Where a future finds its next input and leaves its output.
struct Exchanged<I, T> {
    input: Mutex<Option<I>>,
    output: Mutex<Option<T>>,
}

struct Runner<I, T> {
    exchanged: Arc<Exchanged<I, T>>,
    future: Loop,
}

/// An input on its way through a future of a pool, which goes back when the output is there. One
/// that is dropped earlier takes its future along.
pub(crate) struct PooledFuture<I, T> {
    pool: Arc<FuturePool<I, T>>,
    runner: Option<Runner<I, T>>,
}

impl<I: Send + 'static, T: Send + 'static> FuturePool<I, T> {
    pub(crate) fn new<F>(answer: impl Fn(I) -> F + Clone + Send + Sync + 'static) -> Arc<Self>
    where
        F: Future<Output = T> + Send + 'static,
    {
        let start: Start<I, T> =
            Box::new(move |exchanged| Box::pin(work(exchanged, answer.clone())));
        Arc::new(Self { free: Mutex::default(), start })
    }

    pub(crate) fn run(self: &Arc<Self>, input: I) -> PooledFuture<I, T> {
        let kept = self.free.lock().pop();
        let runner = kept.unwrap_or_else(|| self.start_runner());
        *runner.exchanged.input.lock() = Some(input);
        PooledFuture { pool: Arc::clone(self), runner: Some(runner) }
    }

    fn start_runner(&self) -> Runner<I, T> {
        let exchanged = Arc::new(Exchanged { input: Mutex::default(), output: Mutex::default() });
        Runner { future: (self.start)(Arc::clone(&exchanged)), exchanged }
    }
}

impl<I, T> FuturePool<I, T> {
    fn keep(&self, idle: Runner<I, T>) {
        let mut free = self.free.lock();
        if free.len() < KEPT {
            free.push(idle);
        }
    }
}

async fn work<I, T, F: Future<Output = T>>(
    exchanged: Arc<Exchanged<I, T>>,
    answer: impl Fn(I) -> F,
) {
    loop {
        let input = poll_fn(|_| match exchanged.input.lock().take() {
            Some(input) => Poll::Ready(input),
            // Whoever brings the next one polls.
            None => Poll::Pending,
        });
        let output = answer(input.await).await;
        *exchanged.output.lock() = Some(output);
    }
}

impl<I, T> Future for PooledFuture<I, T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let Some(runner) = &mut self.runner else { return Poll::Pending };
        let _ = runner.future.as_mut().poll(cx);
        let Some(output) = runner.exchanged.output.lock().take() else { return Poll::Pending };
        if let Some(idle) = self.runner.take() {
            self.pool.keep(idle);
        }
        Poll::Ready(output)
    }
}

#[cfg(test)]
mod tests;
