//! A two-way connection that multiplexes calls: over two byte streams with a message per line, or
//! over any other [`Outgoing`]. It matches responses to calls and interprets no methods but
//! progress and cancellation. An invalid message fails at most the call it belongs to. Has no
//! timeouts.

mod calls;
mod exchange;
mod line;

use std::io::{self, IoSlice};
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use bytes::Bytes;
use lockgate_admission::budget::Budget;
use lockgate_admission::reader::Reader;
use lockgate_protocol::jsonrpc::Response;
use lockgate_protocol::outbound;
use memchr::memchr2;
use parking_lot::Mutex;
use scopeguard::guard;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::sync::Notify;

use crate::call::IdentityAssertion;
use crate::failure::{Result, UpstreamError};
use crate::incoming::{Inbox, Intake};
use line::Lines;

pub(crate) use calls::Role;
pub(crate) use exchange::{
    Bounds, Exchange, MessageQueue, Outgoing, QueuedMessage, count_outgoing,
};

/// A handle to a connection. Dropping the last handle ends the connection.
pub(crate) struct Duplex {
    pub(crate) exchange: Arc<Exchange>,
    /// The name of the transport.
    pub(crate) name: &'static str,
}

impl Duplex {
    /// Starts a connection over two byte streams, a message per line. `writer` must not buffer,
    /// because it is never flushed, and dropping it must signal the end of input to the peer.
    /// `Inbox::closed` is called exactly once at the end.
    pub(crate) fn lines<R, W>(
        reader: R,
        writer: W,
        bounds: Bounds,
        inbox: Arc<dyn Inbox>,
        intake: Intake,
    ) -> Arc<Self>
    where
        R: AsyncRead + Unpin + Send + 'static,
        W: AsyncWrite + Unpin + Send + 'static,
    {
        let pipe = Arc::new(Pipe::new(writer, bounds.outgoing, Arc::clone(&intake.budget)));
        let memory = Reader::new(&intake.budget);
        let exchange = Exchange::new(pipe.clone(), bounds, inbox, intake);
        exchange.spawn(run(pipe, exchange.clone()));
        let lines = Lines::new(bounds.message_bytes);
        // For any end of the task.
        let ending = guard(exchange.clone(), |exchange| {
            exchange.end("the connection stopped unexpectedly");
        });
        exchange.spawn(read(reader, lines, memory, ending));
        Arc::new(Self { exchange, name: "stdio" })
    }

    /// Sends a request and waits for the response with `id`. The text already contains `id`, also
    /// as its progress token, if any. The request is on behalf of the caller, or of the
    /// connection's owner. Dropping the future withdraws a request of which nothing has been
    /// written; otherwise it sends a cancellation if `cancellable`.
    pub(crate) async fn request(
        &self,
        id: u64,
        text: Bytes,
        role: Role,
        assertion: Option<Arc<dyn IdentityAssertion>>,
        cancellable: bool,
    ) -> Result<Response> {
        let answer = self.exchange.calls.enter(id, role)?;
        let message = QueuedMessage { id: Some(id), text, assertion: assertion.clone() };
        if let Err(failure) = self.exchange.outgoing.send(message) {
            self.exchange.calls.leave(id);
            return Err(failure);
        }
        let waiting = guard(assertion, |assertion| self.leave(id, assertion, cancellable));
        let answer = answer.await;
        drop(waiting);
        answer
            .unwrap_or_else(|_| Err(UpstreamError::lost("the connection to the server is closed")))
    }

    /// Removes a waiting call.
    fn leave(&self, id: u64, assertion: Option<Arc<dyn IdentityAssertion>>, cancellable: bool) {
        // An answered call was removed already, so a cancellation never names a finished call.
        let exchange = &self.exchange;
        if !exchange.calls.leave(id) || exchange.outgoing.withdraw(id) || !cancellable {
            return;
        }
        let id = id.to_string();
        let text = outbound::cancelled(id.as_bytes(), "the caller is no longer waiting");
        if let Err(failure) = self.notify(text.into(), assertion) {
            tracing::debug!(%failure, "a cancellation was not sent");
        }
    }

    /// Sends a notification or a response. Never waits: fails if the queue is full or the
    /// connection has ended.
    pub(crate) fn notify(
        &self,
        text: Bytes,
        assertion: Option<Arc<dyn IdentityAssertion>>,
    ) -> Result<()> {
        self.exchange.outgoing.send(QueuedMessage { id: None, text, assertion })
    }

    /// Closes the writing side once the queue has been written, which the peer reads as the end of
    /// its input. Responses can still arrive.
    pub(crate) fn close(&self) {
        self.exchange.outgoing.close();
    }
}

impl Drop for Duplex {
    fn drop(&mut self) {
        self.exchange.end("the gateway closed the connection");
    }
}

async fn read<R: AsyncRead + Unpin>(
    mut source: R,
    mut lines: Lines,
    mut memory: Reader,
    exchange: impl Deref<Target = Arc<Exchange>>,
) {
    let exchange = &*exchange;
    loop {
        let more = if memory.is_known() {
            tokio::select! {
                biased;
                _ = memory.told() => {
                    exchange.line(lines.give_up()).await;
                    memory.shrink_to(0);
                    continue;
                }
                more = source.read_buf(lines.space()) => more,
            }
        } else {
            source.read_buf(lines.space()).await
        };
        match more {
            Ok(0) => break,
            Ok(_) => exchange.heard(),
            Err(error) => return exchange.end(&format!("reading from the server failed: {error}")),
        }
        lines.resize(exchange.message_bytes());
        while let Some(line) = lines.next() {
            exchange.line(line.count(&mut memory, lines.pending())).await;
        }
        // Waits while there is no memory, which holds up the server.
        if memory.hold(lines.pending()).await.is_err() {
            exchange.line(lines.give_up()).await;
            memory.shrink_to(0);
        }
    }
    exchange.last(lines.rest()).await;
    exchange.end("the server closed its output");
}

// The writing side of a line connection: a sender writes directly if the queue is empty, and a task
// writes the rest. Never blocks a sender and never writes a line end inside a message.

/// Number of messages per write.
const MAX_BATCH: usize = 32;
/// Time for responses to arrive after the server has stopped reading.
const LAST_ANSWERS_TIMEOUT: Duration = Duration::from_secs(1);

struct Pipe<W> {
    state: Mutex<PipeState<W>>,
    bell: Arc<Bell>,
    /// Wakes `bell`. The same waker for all writes, so that the task continues when the pipe has
    /// room.
    waker: Waker,
    budget: Arc<Budget>,
}

struct PipeState<W> {
    /// `None` once the writing side is closed or broken.
    writer: Option<W>,
    queue: MessageQueue,
    /// Bytes of the first message (with its line end) already written.
    written: usize,
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
    fn new(writer: W, capacity: usize, budget: Arc<Budget>) -> Self {
        let bell = Arc::new(Bell::default());
        let waker = Waker::from(bell.clone());
        let state = PipeState {
            writer: Some(writer),
            queue: MessageQueue::new(capacity, "the server does not read its input"),
            written: 0,
            broken: None,
        };
        Self { state: Mutex::new(state), bell, waker, budget }
    }

    /// Writes as much as possible without blocking; `bell` is notified when the pipe has room.
    fn drain(&self, state: &mut PipeState<W>) {
        if let Err(error) = state.drain(&mut Context::from_waker(&self.waker)) {
            state.writer = None;
            state.queue.is_closed = true;
            state.broken = Some(error);
            self.bell.0.notify_one();
        }
    }
}

/// Writes the remaining queue, until the connection is closed or broken.
async fn run<W: AsyncWrite + Unpin + Send + 'static>(pipe: Arc<Pipe<W>>, exchange: Arc<Exchange>) {
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
        if self.queue.is_closed {
            self.writer = None;
        }
        Ok(())
    }
}

impl<W: AsyncWrite + Unpin + Send + 'static> Outgoing for Pipe<W> {
    fn send(&self, mut message: QueuedMessage) -> Result<()> {
        message.text = one_line(count_outgoing(message.text, &self.budget)?);
        let mut state = self.state.lock();
        let idle = state.queue.messages.is_empty();
        state.queue.push(message)?;
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
        self.state.lock().queue.is_closed = true;
        self.bell.0.notify_one();
    }

    fn is_open(&self) -> bool {
        !self.state.lock().queue.is_closed
    }

    fn end(&self) -> Vec<u64> {
        let mut state = self.state.lock();
        state.writer = None;
        let started = usize::from(state.written > 0);
        state.queue.end(started)
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

#[cfg(test)]
mod tests;
