//! What waits for a collector. Whoever has something to export never waits for it: a full queue
//! loses what comes. One task sends it in batches, and tries again until each is taken or refused
//! for good. What is lost is counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use opentelemetry_proto::transform::common::tonic::ResourceAttributesWithSchema;
use prost::bytes::Bytes;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::collector::{Collector, ExportFailure};

/// What waits for the exporter at most; something further is lost.
pub(crate) const QUEUE: usize = 2048;
/// The most in one request to the collector.
const BATCH: usize = 512;
/// Longest time that something waits for its batch to fill.
const LINGER: Duration = Duration::from_secs(2);
/// Before a batch that was not taken is tried again: at first, and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// Time for what is still there at the end.
const FAREWELL: Duration = Duration::from_secs(3);

/// A kind of what is exported.
pub(crate) trait Signal {
    type Item;
    /// What the log says when a batch was not taken, and when one is taken again.
    const FAILED: &'static str;
    const RESUMED: &'static str;

    /// The body of a request with a batch (protobuf).
    fn encode(batch: Vec<Self::Item>, resource: &ResourceAttributesWithSchema) -> Vec<u8>;
}

/// The end of the queue that is filled. Clones fill the same one.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    places: mpsc::Sender<Message<T>>,
    state: Arc<State>,
}

impl<T> Clone for Queue<T> {
    fn clone(&self) -> Self {
        Self { places: self.places.clone(), state: Arc::clone(&self.state) }
    }
}

/// The end that is emptied, from [`Waiting::export`] on.
#[derive(Debug)]
pub(crate) struct Waiting<T> {
    queued: mpsc::Receiver<Message<T>>,
    state: Arc<State>,
}

#[derive(Debug, Default)]
struct State {
    lost: Arc<AtomicU64>,
    /// Somebody waits for a flush: nothing is tried twice.
    is_flushing: AtomicBool,
    /// Ends the pause before the next try.
    hurry: Notify,
}

#[derive(Debug)]
enum Message<T> {
    Item(T),
    /// Export what is there, then answer.
    Flush(oneshot::Sender<()>),
}

/// A queue whose losses are counted in `lost`.
pub(crate) fn queue<T>(lost: Arc<AtomicU64>) -> (Queue<T>, Waiting<T>) {
    let (places, queued) = mpsc::channel(QUEUE);
    let state = Arc::new(State { lost, ..State::default() });
    (Queue { places, state: Arc::clone(&state) }, Waiting { queued, state })
}

impl<T> Queue<T> {
    /// Queues what `make` makes, which is not asked when it would be lost. Never waits.
    pub(crate) fn put(&self, make: impl FnOnce() -> T) {
        match self.places.try_reserve() {
            Ok(place) => place.send(Message::Item(make())),
            Err(_) => _ = self.state.lost.fetch_add(1, Relaxed),
        }
    }

    /// Exports what is queued, each batch tried once; waits three seconds at most.
    pub(crate) async fn flush(&self) {
        let (done, wait) = oneshot::channel();
        self.state.is_flushing.store(true, Relaxed);
        self.state.hurry.notify_one();
        let flushed = async {
            if self.places.send(Message::Flush(done)).await.is_ok() {
                // An error means that the exporter is gone, and then there is nothing to wait for.
                let _ = wait.await;
            }
        };
        let _ = timeout(FAREWELL, flushed).await;
    }

    /// How much was made and not exported.
    pub(crate) fn lost(&self) -> u64 {
        self.state.lost.load(Relaxed)
    }

    /// Where that is counted.
    pub(crate) fn losses(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.state.lost)
    }
}

impl<T> Waiting<T> {
    /// Sends what is queued to the collector, until nobody can queue anything any more.
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
    /// What is queued now.
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
    /// Who waits for it.
    flushed: Option<oneshot::Sender<()>>,
    /// There may be more.
    is_open: bool,
}

/// The next batch: a full one, or what there is after a while or before a flush.
async fn fill<T>(queued: &mut mpsc::Receiver<Message<T>>) -> Next<T> {
    let mut next = Next { batch: Vec::new(), flushed: None, is_open: true };
    let mut deadline = None;
    while next.batch.len() < BATCH {
        let message = match deadline {
            None => queued.recv().await,
            Some(deadline) => match timeout_at(deadline, queued.recv()).await {
                Ok(message) => message,
                Err(_) => return next,
            },
        };
        match message {
            Some(Message::Item(item)) => {
                deadline.get_or_insert_with(|| Instant::now() + LINGER);
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
    state: Arc<State>,
    /// The last try failed, and the log says so.
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
            let wait = failure.wait.unwrap_or(Duration::ZERO).clamp(pause, LONGEST_PAUSE);
            tokio::select! {
                () = sleep(wait.mul_f64(0.75 + fastrand::f64() / 4.0)) => {}
                () = self.state.hurry.notified() => {}
            }
            pause = LONGEST_PAUSE.min(pause * 2);
        }
    }

    /// Once, until it is better.
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
