//! Distinguishes an HTTP/1.1 client that has shut down only its sending side, and awaits its
//! response, from a closed connection. Both send a FIN, but a closed peer answers data with RST,
//! and the next write fails. So a harmless probe is written while the exchange runs: `100 Continue`
//! before the response has begun (RFC 9110, 15.2: clients must accept interim responses), or a
//! comment in an event stream. HTTP/1.0 has neither, so there a FIN means that the client has left.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

use super::state::ConnectionState;

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
            if state.is_http10() {
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
            self.ended = Some(Box::new(Ended::new()));
        }
        let Some(ended) = &mut self.ended else { return Ok(()) };
        while ended.timer.as_mut().poll(cx).is_ready() {
            ended.pause = (ended.pause * 2).min(MAX_PROBE_INTERVAL);
            ended.timer.as_mut().reset(Instant::now() + ended.pause);
            if state.is_answering() {
                state.request_comment();
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

#[cfg(test)]
mod tests;
