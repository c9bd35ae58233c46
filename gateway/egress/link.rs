//! One HTTP/1.1 connection that is driven by whoever waits for it. No task runs behind it.
//!
//! hyper expects its connection future to be spawned, and then every call pays for waking that task and being woken by it.
//! Here `send` and the response body poll the future themselves, so nothing moves while nobody waits: an idle link is only a
//! socket. Measured figures are in `pool`.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use bytes::Bytes;
use futures_util::task::AtomicWaker;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::TrySendError;
use hyper::client::conn::http1::{Builder, Connection, SendRequest};
use hyper_util::rt::TokioIo;

use crate::stream::Stream;

/// Bytes of a response head. hyper's own default is its whole read buffer, 400 kB.
const MAX_HEAD: usize = 64 << 10;

/// Times that a link is polled again because it woke itself, before the scheduler gets its turn.
const MAX_ROUNDS: usize = 8;

/// A connection, the way to put a request into it, and the waker it was given.
pub(crate) struct Link {
    sender: SendRequest<Full<Bytes>>,
    /// Gone once the connection has ended; hyper then fails whatever still waits.
    connection: Option<Connection<TokioIo<Stream>, Full<Bytes>>>,
    bell: Arc<Bell>,
    waker: Waker,
}

impl Link {
    /// Prepares a connected stream for HTTP/1.1. Nothing is sent.
    pub(crate) async fn new(stream: Stream) -> hyper::Result<Self> {
        let (sender, connection) = Builder::new()
            .max_header_size(MAX_HEAD)
            .handshake(TokioIo::new(stream))
            .await?;
        let bell = Arc::new(Bell {
            state: AtomicU8::new(POLLING),
            caller: AtomicWaker::new(),
        });
        let waker = Waker::from(bell.clone());
        Ok(Self {
            sender,
            connection: Some(connection),
            bell,
            waker,
        })
    }

    /// Sends a request and waits for the response head. The error holds the request if none of it was written: hyper
    /// looks for a close by the server before it takes up a request, so a stale connection costs nothing but this.
    pub(crate) async fn send(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, TrySendError<Request<Full<Bytes>>>> {
        let mut response = pin!(self.sender.try_send_request(request));
        std::future::poll_fn(|cx| {
            drive(&mut self.connection, &self.bell, &self.waker, cx, |cx| {
                response.as_mut().poll(cx)
            })
        })
        .await
    }

    /// Polls `wanted`, which this connection feeds; moves the connection only when `wanted` has nothing yet.
    pub(crate) fn poll<T>(
        &mut self,
        cx: &Context<'_>,
        mut wanted: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        self.bell.quiet();
        match wanted(&mut Context::from_waker(&self.waker)) {
            Poll::Ready(value) => Poll::Ready(value),
            Poll::Pending => drive(&mut self.connection, &self.bell, &self.waker, cx, wanted),
        }
    }

    /// Whether the last exchange is over on both sides and another one may start.
    pub(crate) fn is_reusable(&mut self) -> bool {
        self.bell.quiet();
        if !self.sender.is_ready()
            && let Some(connection) = &mut self.connection
            && Pin::new(connection)
                .poll(&mut Context::from_waker(&self.waker))
                .is_ready()
        {
            self.connection = None;
        }
        self.connection.is_some() && self.sender.is_ready()
    }
}

/// Moves the connection, then looks at `wanted`, until that is ready or both wait for the network.
fn drive<T>(
    connection: &mut Option<Connection<TokioIo<Stream>, Full<Bytes>>>,
    bell: &Bell,
    waker: &Waker,
    cx: &Context<'_>,
    mut wanted: impl FnMut(&mut Context<'_>) -> Poll<T>,
) -> Poll<T> {
    bell.caller.register(cx.waker());
    let mut inner = Context::from_waker(waker);
    for _ in 0..MAX_ROUNDS {
        bell.quiet();
        if let Some(moving) = connection
            && Pin::new(moving).poll(&mut inner).is_ready()
        {
            *connection = None;
        }
        if let Poll::Ready(value) = wanted(&mut inner) {
            return Poll::Ready(value);
        }
        if bell.park() {
            return Poll::Pending;
        }
    }
    cx.waker().wake_by_ref();
    Poll::Pending
}

/// The caller is looking; a ring only has to be noticed.
const POLLING: u8 = 0;
/// The caller sleeps; a ring wakes it.
const PARKED: u8 = 1;
/// Somebody rang since the caller last looked.
const RUNG: u8 = 2;

/// The waker of a connection. It passes a wake-up on only while the caller sleeps, so that the two halves of hyper that wake
/// each other do not reschedule the task that polls both, and an idle link wakes nobody.
struct Bell {
    state: AtomicU8,
    /// Kept while idle (it is often the same task that comes back); at most one finished task per idle link is held by it.
    caller: AtomicWaker,
}

impl Bell {
    fn quiet(&self) {
        self.state.store(POLLING, Ordering::Release);
    }

    /// False if somebody rang in the meantime.
    fn park(&self) -> bool {
        self.state
            .compare_exchange(POLLING, PARKED, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }

    fn ring(&self) {
        if self.state.swap(RUNG, Ordering::AcqRel) == PARKED {
            self.caller.wake();
        }
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.ring();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.ring();
    }
}
