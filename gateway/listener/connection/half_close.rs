//! Tells a client of HTTP/1.1 that has only ended its own side, and waits for its answer, from one
//! that has left: both send a FIN, but what is written to the latter is answered with RST, and the
//! next write fails. So something harmless is written while the exchange runs: `100 Continue`
//! before the answer has begun (RFC 9110, 15.2: every client takes interim responses), a comment in
//! an event stream. HTTP/1.0 has neither: there, a client that ends its side has left.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

use super::state::ConnectionState;

const INTERIM: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";
/// How long after the end of what a client sends it is first asked, and then how long until the
/// next time, which doubles. One that has left is noticed at the second, so after 0.3 s, or two
/// round trips if they take longer.
const FIRST: Duration = Duration::from_millis(100);
/// The longest time between two questions.
const LAST: Duration = Duration::from_secs(15);

/// What is known of the end of what a client sends, while one of its exchanges runs.
#[derive(Default)]
pub(super) struct HalfClose {
    /// The first byte of the next request. While it waits, nothing further is read, and so no end
    /// is seen.
    ahead: Option<u8>,
    ended: Option<Box<Ended>>,
}

/// The client has ended its side.
struct Ended {
    timer: Pin<Box<Sleep>>,
    pause: Duration,
    /// What is left of an interim response that is being written.
    interim: &'static [u8],
}

impl HalfClose {
    /// Looks whether the client is still there; call it when nothing else is half written. An error
    /// means that it has left.
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
            ended.pause = (ended.pause * 2).min(LAST);
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

    /// Writes what has to come before anything else is written.
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

    /// Hands over what was read, if there is room.
    pub(super) fn give(&mut self, buf: &mut ReadBuf<'_>) {
        if buf.remaining() > 0
            && let Some(byte) = self.ahead.take()
        {
            buf.put_slice(&[byte]);
        }
    }

    /// Whether the client has ended its side. TLS calls a connection that ends without a goodbye an
    /// error.
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
        Self { timer: Box::pin(tokio::time::sleep(FIRST)), pause: FIRST, interim: b"" }
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
