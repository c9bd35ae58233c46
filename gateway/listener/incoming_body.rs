//! Request bodies as they arrive. An HTTP/2 stream that ends while its client still sends is reset,
//! and clients that send headers and body separately (curl) then lose the response. A bounded
//! remainder of such a body is therefore read after the response.

use std::cell::Cell;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use bytes::Bytes;
use http::Version;
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use lockgate_admission::spawn;
use scopeguard::guard;

/// Maximum bytes read after the response.
const MAX_REST: usize = 64 * 1024;
/// Maximum time spent on reading them.
const REST_TIMEOUT: Duration = Duration::from_secs(1);

/// A request body. On HTTP/2, a bounded remainder is drained when the body is dropped unread.
pub struct IncomingBody {
    /// `None` only during drop.
    body: Option<Incoming>,
    is_http2: bool,
}

impl IncomingBody {
    pub(crate) fn new(body: Incoming, version: Version) -> Self {
        Self { body: Some(body), is_http2: version == Version::HTTP_2 }
    }
}

impl Body for IncomingBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let is_http2 = self.is_http2;
        match &mut self.body {
            Some(body) if is_http2 => Pin::new(body).poll_frame(cx),
            Some(body) => take_frame(body, cx),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(SizeHint::default, Body::size_hint)
    }
}

impl Drop for IncomingBody {
    fn drop(&mut self) {
        if self.is_http2
            && !self.is_end_stream()
            && let Some(body) = self.body.take()
        {
            spawn(tokio::time::timeout(REST_TIMEOUT, read_rest(body)));
        }
    }
}

/// What happens with a wake of a connection.
#[derive(Default)]
enum Wakes {
    #[default]
    Pass,
    Hold,
    Held(Waker),
}

thread_local! {
    static WAKES: Cell<Wakes> = const { Cell::new(Wakes::Pass) };
}

/// Polls for a frame. hyper then wakes its connection, to read the next frame: after the last one,
/// it would be polled for nothing, together with the whole call.
fn take_frame(
    body: &mut Incoming,
    cx: &mut Context<'_>,
) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
    WAKES.set(Wakes::Hold);
    // Ends the hold on drop, because a poll may panic.
    let end = guard((), |()| drop(WAKES.take()));
    let polled = Pin::new(&mut *body).poll_frame(cx);
    let wakes = WAKES.take();
    drop(end);
    if !body.is_end_stream()
        && let Wakes::Held(task) = wakes
    {
        task.wake();
    }
    polled
}

/// Returns the waker of a connection, which [`take_frame`] can hold back, from that of its task.
pub(crate) fn connection_waker(task: &Waker) -> Waker {
    Waker::from(Arc::new(ConnectionWaker { task: task.clone() }))
}

struct ConnectionWaker {
    task: Waker,
}

impl Wake for ConnectionWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // A thread that ends holds nothing back.
        match WAKES.try_with(Cell::take).unwrap_or_default() {
            Wakes::Pass => self.task.wake_by_ref(),
            Wakes::Hold | Wakes::Held(_) => WAKES.set(Wakes::Held(self.task.clone())),
        }
    }
}

async fn read_rest(mut body: Incoming) {
    let mut total = 0;
    while let Some(Ok(frame)) = body.frame().await {
        total += frame.data_ref().map_or(0, Bytes::len);
        if total > MAX_REST {
            return;
        }
    }
}

#[cfg(test)]
mod tests;
