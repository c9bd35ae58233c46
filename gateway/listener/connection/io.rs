//! Wrappers that record a connection's I/O in its state: [`HttpIo`] above TLS for received bytes,
//! [`MeteredSocket`] below TLS for the bytes that the peer accepts.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::half_close::HalfClose;
use super::state::{CloseReason, ConnectionState};

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
    ) -> Poll<std::io::Result<()>> {
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
            return Poll::Ready(Err(std::io::ErrorKind::TimedOut.into()));
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
    ) -> Poll<std::io::Result<usize>> {
        let mut this = self.project();
        ready!(this.half_close.poll_before_write(this.io.as_mut(), cx))?;
        this.io.poll_write(cx, buf)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[std::io::IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        let mut this = self.project();
        ready!(this.half_close.poll_before_write(this.io.as_mut(), cx))?;
        this.io.poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        let mut this = self.project();
        // HTTP/1 flushes when it has processed all input and has no pending output.
        if this.state.awaits_answer() {
            this.half_close.poll(this.io.as_mut(), this.state, cx)?;
        }
        this.io.poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
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
    ) -> Poll<std::io::Result<()>> {
        self.project().io.poll_read(cx, buf)
    }
}

impl<T: AsyncWrite> MeteredSocket<T> {
    fn note(state: &ConnectionState, written: &Poll<std::io::Result<usize>>) {
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
    ) -> Poll<std::io::Result<usize>> {
        let this = self.project();
        let written = this.io.poll_write(cx, buf);
        Self::note(this.state, &written);
        written
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[std::io::IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        let this = self.project();
        let written = this.io.poll_write_vectored(cx, bufs);
        Self::note(this.state, &written);
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        self.project().io.poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        self.project().io.poll_shutdown(cx)
    }
}
