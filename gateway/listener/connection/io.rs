//! Wrappers that record a connection's I/O in its state: [`HttpIo`] above TLS for received bytes,
//! [`MeteredSocket`] below TLS for the bytes that the peer accepts.

#[cfg(test)]
mod tests;

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

use crate::connection::{CloseReason, ConnectionState};

/// The response to a client that does not complete its headers in time.
const LATE: &[u8] =
    b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";

pin_project_lite::pin_project! {
    /// The stream that HTTP reads and writes. Records received bytes, and sends a 408 to late
    /// clients.
    pub(crate) struct HttpIo<T> {
        #[pin]
        io: T,
        state: Arc<ConnectionState>,
        late: usize,
        half_close: HalfClose,
    }
}

impl<T> HttpIo<T> {
    pub(crate) fn new(io: T, state: Arc<ConnectionState>) -> Self {
        Self { io, state, late: 0, half_close: HalfClose::default() }
    }
}

impl<T: AsyncRead + AsyncWrite> AsyncRead for HttpIo<T> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut this = self.project();
        if this.state.close_reason() == CloseReason::LateHeaders {
            while this.state.received.load(Ordering::Relaxed) && *this.late < LATE.len() {
                let rest = LATE.get(*this.late..).unwrap_or(&[]);
                match this.io.as_mut().poll_write(cx, rest) {
                    Poll::Ready(Ok(n)) if n > 0 => *this.late += n,
                    _ => break,
                }
            }
            let _ = this.io.as_mut().poll_flush(cx);
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        let before = buf.filled().len();
        this.half_close.give(buf);
        let mut read = this.io.poll_read(cx, buf);
        let new = buf.filled().get(before..).unwrap_or(&[]);
        if !new.is_empty() && read.is_pending() {
            read = Poll::Ready(Ok(()));
        }
        if !new.is_empty() && !this.state.received.load(Ordering::Relaxed) {
            this.state.received.store(true, Ordering::Relaxed);
        }
        read
    }
}

impl<T: AsyncRead + AsyncWrite> AsyncWrite for HttpIo<T> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let mut this = self.project();
        ready!(this.half_close.poll_before_write(this.io.as_mut(), cx))?;
        this.io.poll_write(cx, buf)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut this = self.project();
        ready!(this.half_close.poll_before_write(this.io.as_mut(), cx))?;
        this.io.poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut this = self.project();
        // HTTP/1 flushes when it has processed all input and has no pending output.
        let awaits_answer = !this.state.http2.load(Ordering::Relaxed)
            && this.state.active.load(Ordering::Relaxed) > 0;
        if awaits_answer {
            this.half_close.poll(this.io.as_mut(), this.state, cx)?;
        }
        this.io.poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.project().io.poll_shutdown(cx)
    }
}

pin_project_lite::pin_project! {
    /// The socket itself. Records whether the peer accepts written bytes.
    pub(crate) struct MeteredSocket<T> {
        #[pin]
        io: T,
        state: Arc<ConnectionState>,
    }
}

impl<T> MeteredSocket<T> {
    pub(crate) fn new(io: T, state: Arc<ConnectionState>) -> Self {
        Self { io, state }
    }
}

impl<T: AsyncRead> AsyncRead for MeteredSocket<T> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.project().io.poll_read(cx, buf)
    }
}

impl<T: AsyncWrite> MeteredSocket<T> {
    fn note(state: &ConnectionState, written: &Poll<io::Result<usize>>) {
        let write_blocked = written.is_pending();
        if state.write_blocked.load(Ordering::Relaxed) != write_blocked {
            state.write_blocked.store(write_blocked, Ordering::Relaxed);
        }
        if !write_blocked && !state.wrote.load(Ordering::Relaxed) {
            state.wrote.store(true, Ordering::Relaxed);
        }
    }
}

impl<T: AsyncWrite> AsyncWrite for MeteredSocket<T> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.project();
        let written = this.io.poll_write(cx, buf);
        Self::note(this.state, &written);
        written
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.project();
        let written = this.io.poll_write_vectored(cx, bufs);
        Self::note(this.state, &written);
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.project().io.poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.project().io.poll_shutdown(cx)
    }
}

const INTERIM: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";
/// Delay of the first probe after the client's FIN, and the initial interval between probes, which
/// doubles. A client that has left is detected at the second probe: after 0.3 s, or two round trips
/// if they take longer.
const FIRST_PROBE_INTERVAL: Duration = Duration::from_millis(100);
/// Maximum interval between probes.
const MAX_PROBE_INTERVAL: Duration = Duration::from_secs(15);

/// Tracks whether the client has shut down its sending side during an exchange.
#[derive(Default)]
pub(super) struct HalfClose {
    /// The first byte of the next request. While it is held, nothing further is read, so a FIN is
    /// not detected.
    ahead: Option<u8>,
    ended: Option<Box<Ended>>,
}

/// State after the client's FIN.
struct Ended {
    timer: Pin<Box<Sleep>>,
    pause: Duration,
    /// The remaining bytes of an interim response that is being written.
    interim: &'static [u8],
}

impl HalfClose {
    /// Probes whether the client is still connected. Call this only while no other write is
    /// incomplete. An error means that the client has left.
    pub(super) fn poll<T>(
        &mut self,
        mut io: Pin<&mut T>,
        state: &ConnectionState,
        cx: &mut Context<'_>,
    ) -> io::Result<()>
    where
        T: AsyncRead + AsyncWrite,
    {
        if self.ended.is_none() {
            if !self.poll_end(io.as_mut(), cx)? {
                return Ok(());
            }
            if state.http10.load(Ordering::Relaxed) {
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
            self.ended = Some(Box::new(Ended::new()));
        }
        let Some(ended) = &mut self.ended else { return Ok(()) };
        while ended.timer.as_mut().poll(cx).is_ready() {
            ended.pause = (ended.pause * 2).min(MAX_PROBE_INTERVAL);
            ended.timer.as_mut().reset(Instant::now() + ended.pause);
            if state.answering.load(Ordering::Relaxed) {
                state.comment.store(true, Ordering::Relaxed);
                cx.waker().wake_by_ref();
            } else if ended.interim.is_empty() {
                ended.interim = INTERIM;
            }
        }
        match ended.poll_write(io, cx) {
            Poll::Ready(Err(error)) => Err(error),
            _ => Ok(()),
        }
    }

    /// Writes the rest of a partially written interim response, which must precede other bytes.
    pub(super) fn poll_before_write<T>(
        &mut self,
        io: Pin<&mut T>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>>
    where
        T: AsyncWrite,
    {
        match &mut self.ended {
            Some(ended) => ended.poll_write(io, cx),
            None => Poll::Ready(Ok(())),
        }
    }

    /// Moves the byte read ahead into `buf`, if there is room.
    pub(super) fn give(&mut self, buf: &mut ReadBuf<'_>) {
        if buf.remaining() > 0
            && let Some(byte) = self.ahead.take()
        {
            buf.put_slice(&[byte]);
        }
    }

    /// Returns whether the client has shut down its sending side. TLS reports a connection without
    /// `close_notify` as an error.
    fn poll_end<T: AsyncRead>(
        &mut self,
        io: Pin<&mut T>,
        cx: &mut Context<'_>,
    ) -> io::Result<bool> {
        if self.ahead.is_some() {
            return Ok(false);
        }
        let mut byte = [0];
        let mut buf = ReadBuf::new(&mut byte);
        match io.poll_read(cx, &mut buf) {
            Poll::Pending => Ok(false),
            Poll::Ready(Err(error)) if error.kind() != io::ErrorKind::UnexpectedEof => Err(error),
            Poll::Ready(_) => {
                self.ahead = buf.filled().first().copied();
                Ok(self.ahead.is_none())
            }
        }
    }
}

impl Ended {
    fn new() -> Self {
        Self {
            timer: Box::pin(tokio::time::sleep(FIRST_PROBE_INTERVAL)),
            pause: FIRST_PROBE_INTERVAL,
            interim: b"",
        }
    }

    fn poll_write<T: AsyncWrite>(
        &mut self,
        mut io: Pin<&mut T>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        while !self.interim.is_empty() {
            let written = ready!(io.as_mut().poll_write(cx, self.interim))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.interim = self.interim.get(written..).unwrap_or(&[]);
        }
        Poll::Ready(Ok(()))
    }
}
