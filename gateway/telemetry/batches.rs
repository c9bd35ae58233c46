//! The queue of data for a collector. Adding to it never waits: a full queue drops new items. A
//! single task sends batches, and retries each until it is accepted or permanently rejected. Lost
//! items are counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use opentelemetry_proto::transform::common::tonic::ResourceAttributesWithSchema;
use prost::bytes::Bytes;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::collector::{Collector, ExportFailure};

/// Capacity of the queue; further items are lost.
pub(crate) const QUEUE_CAPACITY: usize = 2048;
/// Maximum items in one request to the collector.
const MAX_BATCH: usize = 512;
/// Maximum time that an item waits for its batch to fill.
const LINGER_TIMEOUT: Duration = Duration::from_secs(2);
/// First and maximum pause before a retry.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const MAX_PAUSE: Duration = Duration::from_secs(10);
/// Time to export the remaining items at shutdown.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(3);

/// A kind of exported data.
pub(crate) trait Signal {
    type Item;
    /// Log messages for a failed batch, and for the next successful one.
    const FAILED: &'static str;
    const RESUMED: &'static str;

    /// Encodes the request body of a batch (protobuf).
    fn encode(batch: Vec<Self::Item>, resource: &ResourceAttributesWithSchema) -> Vec<u8>;
}

/// The sending half of the queue. Clones share the queue.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    places: mpsc::Sender<Message<T>>,
    state: Arc<BatchState>,
}

impl<T> Clone for Queue<T> {
    fn clone(&self) -> Self {
        Self { places: self.places.clone(), state: Arc::clone(&self.state) }
    }
}

/// The receiving half of the queue, drained by [`Waiting::export`].
#[derive(Debug)]
pub(crate) struct Waiting<T> {
    queued: mpsc::Receiver<Message<T>>,
    state: Arc<BatchState>,
}

#[derive(Debug, Default)]
struct BatchState {
    lost: Arc<AtomicU64>,
    /// A flush is pending, so failed batches are not retried.
    is_flushing: AtomicBool,
    /// Ends the pause before the next retry.
    hurry: Notify,
}

#[derive(Debug)]
enum Message<T> {
    Item(T),
    /// Export the queued items, then respond.
    Flush(oneshot::Sender<()>),
}

/// Creates a queue that counts lost items in `lost`.
pub(crate) fn queue<T>(lost: Arc<AtomicU64>) -> (Queue<T>, Waiting<T>) {
    let (places, queued) = mpsc::channel(QUEUE_CAPACITY);
    let state = Arc::new(BatchState { lost, ..BatchState::default() });
    (Queue { places, state: Arc::clone(&state) }, Waiting { queued, state })
}

impl<T> Queue<T> {
    /// Queues the result of `make`, which is not called if the queue is full. Never waits.
    pub(crate) fn put(&self, make: impl FnOnce() -> T) {
        match self.places.try_reserve() {
            Ok(place) => place.send(Message::Item(make())),
            Err(_) => _ = self.state.lost.fetch_add(1, Relaxed),
        }
    }

    /// Exports the queued items, with one attempt per batch. Waits at most three seconds.
    pub(crate) async fn flush(&self) {
        let (done, wait) = oneshot::channel();
        self.state.is_flushing.store(true, Relaxed);
        self.state.hurry.notify_one();
        let flushed = async {
            if self.places.send(Message::Flush(done)).await.is_ok() {
                // An error means that the exporter has ended, so there is nothing to wait for.
                let _ = wait.await;
            }
        };
        let _ = timeout(SHUTDOWN_TIMEOUT, flushed).await;
    }

    pub(crate) fn lost(&self) -> u64 {
        self.state.lost.load(Relaxed)
    }

    pub(crate) fn losses(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.state.lost)
    }
}

impl<T> Waiting<T> {
    /// Sends queued items to the collector until all senders are dropped.
    pub(crate) async fn export<S: Signal<Item = T>>(self, collector: Collector) {
        let Self { mut queued, state } = self;
        let mut exporter = Exporter { collector, state, is_failing: false };
        let mut is_open = true;
        while is_open {
            let next = fill(&mut queued).await;
            is_open = next.is_open;
            if !next.batch.is_empty() {
                exporter.deliver::<S>(next.batch).await;
            }
            if let Some(done) = next.flushed {
                exporter.state.is_flushing.store(false, Relaxed);
                let _ = done.send(());
            }
        }
    }
}

#[cfg(test)]
impl<T> Waiting<T> {
    pub(crate) fn into_items(mut self) -> Vec<T> {
        let mut items = Vec::new();
        while let Ok(Message::Item(item)) = self.queued.try_recv() {
            items.push(item);
        }
        items
    }
}

struct Next<T> {
    batch: Vec<T>,
    /// The flush that waits for the batch.
    flushed: Option<oneshot::Sender<()>>,
    /// More items may follow.
    is_open: bool,
}

/// Collects the next batch: a full one, or the items up to the deadline or a flush.
async fn fill<T>(queued: &mut mpsc::Receiver<Message<T>>) -> Next<T> {
    let mut next = Next { batch: Vec::new(), flushed: None, is_open: true };
    let mut deadline = None;
    while next.batch.len() < MAX_BATCH {
        let message = match deadline {
            None => queued.recv().await,
            Some(deadline) => match timeout_at(deadline, queued.recv()).await {
                Ok(message) => message,
                Err(_) => return next,
            },
        };
        match message {
            Some(Message::Item(item)) => {
                deadline.get_or_insert_with(|| Instant::now() + LINGER_TIMEOUT);
                next.batch.push(item);
            }
            Some(Message::Flush(done)) => {
                next.flushed = Some(done);
                return next;
            }
            None => {
                next.is_open = false;
                return next;
            }
        }
    }
    next
}

struct Exporter {
    collector: Collector,
    state: Arc<BatchState>,
    /// The last attempt failed and was logged.
    is_failing: bool,
}

impl Exporter {
    async fn deliver<S: Signal>(&mut self, batch: Vec<S::Item>) {
        let count = batch.len() as u64;
        let body = Bytes::from(S::encode(batch, self.collector.resource()));
        let mut pause = FIRST_PAUSE;
        loop {
            let Err(failure) = self.collector.post(body.clone()).await else {
                return self.tell_success::<S>();
            };
            self.tell_failure::<S>(&failure);
            if !failure.is_passing || self.state.is_flushing.load(Relaxed) {
                self.state.lost.fetch_add(count, Relaxed);
                return;
            }
            let wait = failure.wait.unwrap_or(Duration::ZERO).clamp(pause, MAX_PAUSE);
            tokio::select! {
                () = sleep(wait.mul_f64(0.75 + fastrand::f64() / 4.0)) => {}
                () = self.state.hurry.notified() => {}
            }
            pause = MAX_PAUSE.min(pause * 2);
        }
    }

    /// Logs the first failure after a success.
    fn tell_failure<S: Signal>(&mut self, failure: &ExportFailure) {
        if !self.is_failing {
            let collector = self.collector.address();
            tracing::warn!(collector, error = failure.words, "{}", S::FAILED);
        }
        self.is_failing = true;
    }

    fn tell_success<S: Signal>(&mut self) {
        if self.is_failing {
            let lost = self.state.lost.load(Relaxed);
            tracing::info!(lost, "{}", S::RESUMED);
        }
        self.is_failing = false;
    }
}

#[cfg(test)]
mod tests;
