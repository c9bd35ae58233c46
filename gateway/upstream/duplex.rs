//! One two-way connection that carries many calls at once: over two byte streams, one message a
//! line, or over whatever else implements [`Outgoing`]. It matches answers to calls and knows no
//! method but progress and cancellation. A peer that sends nonsense costs at most the call that the
//! nonsense was for; nothing here times out.

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

use crate::call::ClientChannel;
use crate::failure::{Kind, UpstreamError};
use crate::inbox::Inbox;
use crate::incoming::Intake;
use crate::voucher::Voucher;

use calls::Role;
pub(crate) use exchange::{Bounds, Exchange, Outgoing, count_outgoing};
use line::Lines;
use pipe::Pipe;

/// A handle to a connection. Dropping the last one ends the connection.
pub(crate) struct Duplex {
    exchange: Arc<Exchange>,
}

impl Duplex {
    /// Starts a connection over two byte streams, one message a line. `writer` must not buffer:
    /// nothing flushes it, and dropping it must tell the peer that nothing more comes.
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

    /// A connection whose messages come and go in another way: what comes in is given to the
    /// exchange.
    pub(crate) fn over(exchange: Arc<Exchange>) -> Arc<Self> {
        Arc::new(Self { exchange })
    }

    /// Sends a request whose id is `id` (its text already holds it, and `id` as progress token if
    /// it has one), for a caller or else for whose the connection is, and waits for the response
    /// with that id. Dropping the future forgets the call
    /// and, when `cancellable`, tells the server so, unless nothing of the request has been written
    /// yet: then it is never sent.
    pub(crate) async fn request(
        &self,
        id: u64,
        text: Bytes,
        channel: Option<Arc<dyn ClientChannel>>,
        voucher: Option<Arc<dyn Voucher>>,
        cancellable: bool,
    ) -> Result<Response, UpstreamError> {
        self.ask(id, text, Role::Call(channel), voucher, cancellable).await
    }

    /// Like [`Self::request`], for a request that stays open as long as the connection does
    /// (`subscriptions/listen`): it does not count as a call in flight when a message of the server
    /// is attributed to the only one. Cancellable.
    pub(crate) async fn listen(&self, id: u64, text: Bytes) -> Result<Response, UpstreamError> {
        self.ask(id, text, Role::Listen, None, true).await
    }

    async fn ask(
        &self,
        id: u64,
        text: Bytes,
        role: Role,
        voucher: Option<Arc<dyn Voucher>>,
        cancellable: bool,
    ) -> Result<Response, UpstreamError> {
        let answer = self.exchange.calls.enter(id, role)?;
        let mut waiting =
            Waiting { exchange: &self.exchange, id, voucher: voucher.clone(), cancellable: false };
        self.exchange.outgoing.send(Some(id), text, voucher)?;
        waiting.cancellable = cancellable;
        let answer = answer.await;
        drop(waiting);
        answer.unwrap_or_else(|_| {
            Err(UpstreamError::new(Kind::Lost, "the connection to the server is over").after_send())
        })
    }

    /// Sends a notification or a response. Never waits: fails when the queue is full or the
    /// connection is over.
    pub(crate) fn notify(
        &self,
        text: Bytes,
        voucher: Option<Arc<dyn Voucher>>,
    ) -> Result<(), UpstreamError> {
        self.exchange.outgoing.send(None, text, voucher)
    }

    /// Other bounds for messages that come from now on; the size of events is that of when their
    /// stream was opened.
    pub(crate) fn bound_messages(&self, message_bytes: usize, depth: usize) {
        self.exchange.bound_messages(message_bytes, depth);
    }

    /// Whether a request would be taken now, a full queue aside.
    pub(crate) fn is_open(&self) -> bool {
        self.exchange.is_open()
    }

    /// Whether the server waits for an answer to a question of its own.
    pub(crate) fn is_asking(&self) -> bool {
        self.exchange.is_asking()
    }

    /// Ends the writing side once what is queued has been written: the peer reads an end. Answers
    /// still come in.
    pub(crate) fn close(&self) {
        self.exchange.outgoing.close();
    }

    /// Messages that were dropped because nobody could make sense of them.
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

/// A call that waits. Forgets the call at the end, whatever the end is.
struct Waiting<'a> {
    exchange: &'a Exchange,
    id: u64,
    /// Who waits.
    voucher: Option<Arc<dyn Voucher>>,
    cancellable: bool,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        // An answered call is no longer there, so that a cancellation never names a finished one.
        if !self.exchange.calls.leave(self.id)
            || self.exchange.outgoing.withdraw(self.id)
            || !self.cancellable
        {
            return;
        }
        let mut params = b"{\"requestId\":".to_vec();
        write::number(&mut params, self.id);
        params.extend_from_slice(b",\"reason\":\"the caller no longer waits\"}");
        let note = write::notification("notifications/cancelled", &params);
        if let Err(failure) = self.exchange.outgoing.send(None, note.into(), self.voucher.take()) {
            tracing::debug!(%failure, "a cancellation was not sent");
        }
    }
}

/// Ends the exchange when the task that holds it is over, whatever ended it.
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
        // Waits while there is no room, and the server with it.
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
