//! Pooled memory for large and short-lived futures: exchanges and calls. Reuse leaves no holes in
//! the heap for long-lived connections to fill, and hyper reserves no memory for an exchange in
//! each connection. An idle future waits for its next input in place, so nothing large is moved per
//! exchange.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use parking_lot::Mutex;

use crate::clock;

/// Idle futures kept in the pool.
const MAX_POOLED: usize = 64;

/// Creates a future that processes inputs in sequence.
type Start<I, T> = Box<dyn Fn(Arc<Slots<I, T>>) -> Loop + Send + Sync>;

/// A future that never completes.
type Loop = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A pool of futures with inputs and outputs of one type.
pub struct FuturePool<I, T> {
    free: Mutex<Vec<Runner<I, T>>>,
    start: Start<I, T>,
}

/// The input and output slots of a future.
pub struct Slots<I, T> {
    input: Mutex<Option<I>>,
    output: Mutex<Option<T>>,
}

impl<I, T> Slots<I, T> {
    /// Takes the input, which is moved once, directly to its consumer.
    pub fn take_input(&self) -> Option<I> {
        self.input.lock().take()
    }
}

struct Runner<I, T> {
    slots: Arc<Slots<I, T>>,
    future: Loop,
}

/// An input that a pooled future is processing. The future returns to the pool when the output is
/// ready; dropping this before then drops the future.
pub struct PooledFuture<I, T> {
    pool: Arc<FuturePool<I, T>>,
    runner: Option<Runner<I, T>>,
}

impl<I: Send + 'static, T: Send + 'static> FuturePool<I, T> {
    /// Creates a pool of futures of `answer`, which must take the input before it completes.
    pub fn new<F>(
        answer: impl Fn(Arc<Slots<I, T>>) -> F + Clone + Send + Sync + 'static,
    ) -> Arc<Self>
    where
        F: Future<Output = T> + Send + 'static,
    {
        let start: Start<I, T> = Box::new(move |slots| Box::pin(work(slots, answer.clone())));
        Arc::new(Self { free: Mutex::default(), start })
    }

    /// Returns the future of an input.
    pub fn run(self: &Arc<Self>, input: I) -> PooledFuture<I, T> {
        let kept = self.free.lock().pop();
        let runner = kept.unwrap_or_else(|| self.start_runner());
        *runner.slots.input.lock() = Some(input);
        PooledFuture { pool: Arc::clone(self), runner: Some(runner) }
    }

    fn start_runner(&self) -> Runner<I, T> {
        let slots = Arc::new(Slots { input: Mutex::default(), output: Mutex::default() });
        Runner { future: (self.start)(Arc::clone(&slots)), slots }
    }
}

impl<I, T> FuturePool<I, T> {
    fn keep(&self, idle: Runner<I, T>) {
        let mut free = self.free.lock();
        if free.len() < MAX_POOLED {
            free.push(idle);
        }
    }
}

async fn work<I, T, F: Future<Output = T>>(
    slots: Arc<Slots<I, T>>,
    answer: impl Fn(Arc<Slots<I, T>>) -> F,
) {
    loop {
        poll_fn(|_| match &*slots.input.lock() {
            Some(_) => Poll::Ready(()),
            // The next `PooledFuture` polls the loop again.
            None => Poll::Pending,
        })
        .await;
        let output = answer(Arc::clone(&slots)).await;
        *slots.output.lock() = Some(output);
    }
}

impl<I, T> Future for PooledFuture<I, T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let Some(runner) = &mut self.runner else { return Poll::Pending };
        let _ = clock::during_poll(|| runner.future.as_mut().poll(cx));
        let Some(output) = runner.slots.output.lock().take() else { return Poll::Pending };
        if let Some(idle) = self.runner.take() {
            self.pool.keep(idle);
        }
        Poll::Ready(output)
    }
}

#[cfg(test)]
mod tests;
