//! A two-way connection that multiplexes calls: over two byte streams with a message per line, or
//! over any other [`Outgoing`]. It matches responses to calls and interprets no methods but
//! progress and cancellation. An invalid message fails at most the call it belongs to. Has no
//! timeouts.

mod calls;
mod exchange;
mod line;
mod pipe;

use std::sync::Arc;

use bytes::Bytes;
use lockgate_admission::reader::Reader;
use lockgate_protocol::jsonrpc::Response;
use lockgate_protocol::write;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};

use crate::call::{ClientChannel, IdentityAssertion};
use crate::failure::{Result, UpstreamError};
use crate::incoming::{Inbox, Intake};
use calls::Role;
use line::Lines;
use pipe::Pipe;

pub(crate) use exchange::{
    Bounds, Exchange, MessageQueue, Outgoing, QueuedMessage, count_outgoing,
};

/// A handle to a connection. Dropping the last handle ends the connection.
pub(crate) struct Duplex {
    exchange: Arc<Exchange>,
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
        exchange.spawn(pipe::run(pipe, exchange.clone()));
        let lines = Lines::new(bounds.message_bytes);
        exchange.spawn(read(reader, lines, memory, Ender(exchange.clone())));
        Arc::new(Self { exchange })
    }

    /// Creates a connection over another transport, which passes input to the exchange.
    pub(crate) fn over(exchange: Arc<Exchange>) -> Arc<Self> {
        Arc::new(Self { exchange })
    }

    /// Sends a request and waits for the response with `id`. The text already contains `id`, also
    /// as its progress token, if any. The request is on behalf of the caller, or of the
    /// connection's owner. Dropping the future withdraws a request of which nothing has been
    /// written; otherwise it sends a cancellation if `cancellable`.
    pub(crate) async fn request(
        &self,
        id: u64,
        text: Bytes,
        channel: Option<Arc<dyn ClientChannel>>,
        assertion: Option<Arc<dyn IdentityAssertion>>,
        cancellable: bool,
    ) -> Result<Response> {
        self.ask(id, text, Role::Call(channel), assertion, cancellable).await
    }

    /// Like [`Self::request`], for a request that stays open as long as the connection
    /// (`subscriptions/listen`). It is not counted when a message of the server is attributed to
    /// the only call in flight. Cancellable.
    pub(crate) async fn listen(&self, id: u64, text: Bytes) -> Result<Response> {
        self.ask(id, text, Role::Listen, None, true).await
    }

    async fn ask(
        &self,
        id: u64,
        text: Bytes,
        role: Role,
        assertion: Option<Arc<dyn IdentityAssertion>>,
        cancellable: bool,
    ) -> Result<Response> {
        let answer = self.exchange.calls.enter(id, role)?;
        let mut waiting = Waiting {
            exchange: &self.exchange,
            id,
            assertion: assertion.clone(),
            cancellable: false,
        };
        self.exchange.outgoing.send(QueuedMessage { id: Some(id), text, assertion })?;
        waiting.cancellable = cancellable;
        let answer = answer.await;
        drop(waiting);
        answer
            .unwrap_or_else(|_| Err(UpstreamError::lost("the connection to the server is closed")))
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

    /// Changes the limits of later messages. An open event stream keeps its event size.
    pub(crate) fn bound_messages(&self, message_bytes: usize, depth: usize) {
        self.exchange.bound_messages(message_bytes, depth);
    }

    /// Reports whether the connection accepts requests, unless its queue is full.
    pub(crate) fn is_open(&self) -> bool {
        self.exchange.is_open()
    }

    pub(crate) fn is_asking(&self) -> bool {
        self.exchange.is_asking()
    }

    /// Closes the writing side once the queue has been written, which the peer reads as the end of
    /// its input. Responses can still arrive.
    pub(crate) fn close(&self) {
        self.exchange.outgoing.close();
    }

    #[cfg(test)]
    fn dropped(&self) -> u64 {
        self.exchange.dropped()
    }
}

impl Drop for Duplex {
    fn drop(&mut self) {
        self.exchange.end("the gateway closed the connection");
    }
}

/// A waiting call, removed on drop.
struct Waiting<'a> {
    exchange: &'a Exchange,
    id: u64,
    assertion: Option<Arc<dyn IdentityAssertion>>,
    cancellable: bool,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        // An answered call was removed already, so a cancellation never names a finished call.
        if !self.exchange.calls.leave(self.id)
            || self.exchange.outgoing.withdraw(self.id)
            || !self.cancellable
        {
            return;
        }
        let mut params = b"{\"requestId\":".to_vec();
        write::number(&mut params, self.id);
        params.extend_from_slice(b",\"reason\":\"the caller is no longer waiting\"}");
        let text = write::notification("notifications/cancelled", &params).into();
        let note = QueuedMessage { id: None, text, assertion: self.assertion.take() };
        if let Err(failure) = self.exchange.outgoing.send(note) {
            tracing::debug!(%failure, "a cancellation was not sent");
        }
    }
}

/// Ends the exchange on drop, for any end of the task that holds it.
struct Ender(Arc<Exchange>);

impl Drop for Ender {
    fn drop(&mut self) {
        self.0.end("the connection stopped unexpectedly");
    }
}

async fn read<R: AsyncRead + Unpin>(
    mut source: R,
    mut lines: Lines,
    mut memory: Reader,
    exchange: Ender,
) {
    let exchange = &exchange.0;
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

#[cfg(test)]
mod tests;
