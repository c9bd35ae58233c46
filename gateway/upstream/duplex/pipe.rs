//! The writing side of a line connection: a sender writes directly if the queue is empty, and a
//! task writes the rest. Never blocks a sender and never writes a line end inside a message.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use bytes::Bytes;
use lockgate_admission::budget::Budget;
use memchr::memchr2;
use parking_lot::Mutex;
use tokio::io::AsyncWrite;
use tokio::sync::Notify;

use super::exchange::{Exchange, MessageQueue, Outgoing, QueuedMessage, count_outgoing};
use crate::failure::{Result, UpstreamError, UpstreamErrorKind};

/// Number of messages per write.
const MAX_BATCH: usize = 32;
/// Time for responses to arrive after the server has stopped reading.
const LAST_ANSWERS_TIMEOUT: Duration = Duration::from_secs(1);

pub(super) struct Pipe<W> {
    state: Mutex<PipeState<W>>,
    bell: Arc<Bell>,
    /// Wakes `bell`. The same waker for all writes, so that the task continues when the pipe has
    /// room.
    waker: Waker,
    capacity: usize,
    budget: Arc<Budget>,
}

struct PipeState<W> {
    /// `None` once the writing side is closed or broken.
    writer: Option<W>,
    queue: MessageQueue,
    /// Bytes of the first message (with its line end) already written.
    written: usize,
    closing: bool,
    broken: Option<io::Error>,
}

#[derive(Default)]
struct Bell(Notify);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.notify_one();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.notify_one();
    }
}

impl<W: AsyncWrite + Unpin + Send + 'static> Pipe<W> {
    pub(super) fn new(writer: W, capacity: usize, budget: Arc<Budget>) -> Self {
        let bell = Arc::new(Bell::default());
        let waker = Waker::from(bell.clone());
        let state = PipeState {
            writer: Some(writer),
            queue: MessageQueue::default(),
            written: 0,
            closing: false,
            broken: None,
        };
        Self { state: Mutex::new(state), bell, waker, capacity, budget }
    }

    /// Writes as much as possible without blocking; `bell` is notified when the pipe has room.
    fn drain(&self, state: &mut PipeState<W>) {
        if let Err(error) = state.drain(&mut Context::from_waker(&self.waker)) {
            state.writer = None;
            state.broken = Some(error);
            self.bell.0.notify_one();
        }
    }
}

/// Writes the remaining queue, until the connection is closed or broken.
pub(super) async fn run<W: AsyncWrite + Unpin + Send + 'static>(
    pipe: Arc<Pipe<W>>,
    exchange: Arc<Exchange>,
) {
    let error = loop {
        pipe.bell.0.notified().await;
        let mut state = pipe.state.lock();
        pipe.drain(&mut state);
        if let Some(error) = state.broken.take() {
            break error;
        }
        if state.writer.is_none() {
            // Closed by the gateway: responses can still arrive for as long as the server runs.
            return;
        }
    };
    tokio::time::sleep(LAST_ANSWERS_TIMEOUT).await;
    exchange.end(&format!("writing to the server failed: {error}"));
}

impl<W: AsyncWrite + Unpin> PipeState<W> {
    fn drain(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        let Some(writer) = &mut self.writer else { return Ok(()) };
        while !self.queue.messages.is_empty() {
            let mut slices = [IoSlice::new(&[]); MAX_BATCH * 2];
            let mut skip = self.written;
            for (item, pair) in self.queue.messages.iter().zip(slices.chunks_exact_mut(2)) {
                let from = skip.min(item.text.len());
                let parts = [item.text.get(from..).unwrap_or(&[]), b"\n".as_slice()];
                for (slot, part) in pair.iter_mut().zip(parts) {
                    *slot = IoSlice::new(part);
                }
                skip = 0;
            }
            let count = self.queue.messages.len().min(MAX_BATCH) * 2;
            match Pin::new(&mut *writer)
                .poll_write_vectored(context, slices.get(..count).unwrap_or(&[]))
            {
                Poll::Pending => return Ok(()),
                Poll::Ready(Ok(0)) => return Err(io::ErrorKind::WriteZero.into()),
                Poll::Ready(Ok(count)) => self.written += count,
                Poll::Ready(Err(error)) => return Err(error),
            }
            while let Some(item) = self.queue.messages.front()
                && self.written > item.text.len()
            {
                self.written -= item.text.len() + 1;
                self.queue.pop();
            }
        }
        if self.closing {
            self.writer = None;
        }
        Ok(())
    }
}

impl<W: AsyncWrite + Unpin + Send + 'static> Outgoing for Pipe<W> {
    fn send(&self, mut message: QueuedMessage) -> Result<()> {
        message.text = one_line(count_outgoing(message.text, &self.budget)?);
        let mut state = self.state.lock();
        if state.closing || state.writer.is_none() {
            return Err(UpstreamError::closed());
        }
        let idle = state.queue.messages.is_empty();
        if !state.queue.push(message, self.capacity) {
            return Err(UpstreamError::new(
                UpstreamErrorKind::Overloaded,
                "the server does not read its input",
            ));
        }
        if idle {
            self.drain(&mut state);
        }
        Ok(())
    }

    fn withdraw(&self, id: u64) -> bool {
        let mut state = self.state.lock();
        let started = usize::from(state.written > 0);
        state.queue.withdraw(id, started)
    }

    fn close(&self) {
        self.state.lock().closing = true;
        self.bell.0.notify_one();
    }

    fn is_open(&self) -> bool {
        let state = self.state.lock();
        !state.closing && state.writer.is_some()
    }

    fn end(&self) -> Vec<u64> {
        let mut state = self.state.lock();
        state.writer = None;
        let started = usize::from(state.written > 0);
        state.queue.clear(started)
    }
}

/// Replaces line ends in JSON text by spaces. They can only be white space between tokens, because
/// strings cannot contain them.
///
/// Carriage returns too, because many servers read with universal line ends.
fn one_line(text: Bytes) -> Bytes {
    if memchr2(b'\n', b'\r', &text).is_none() {
        return text;
    }
    let mut line = text.to_vec();
    for byte in &mut line {
        if matches!(byte, b'\n' | b'\r') {
            *byte = b' ';
        }
    }
    line.into()
}
