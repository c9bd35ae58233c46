//! Calls that outlast a plain response: event streams of modern calls with messages ahead of the
//! response, and legacy calls after the disconnection of their client, which does not cancel them:
//! they continue until another call needs their slot at the server.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use lockgate_admission::Promise;
use lockgate_upstream::Upstream;
use tokio::sync::mpsc;

use crate::client_channel::{CallChannel, Waiting};
use crate::context::RequestContext;
use crate::rescue::RequestError;
use crate::session::{ABSENCE_GRACE_PERIOD, Log};
use crate::streams::OpenStream;
use crate::transport::{Outgoing, Reply, Text};

/// An ended call.
pub(super) type Called = (Box<RequestContext>, Result<Text, RequestError>);
pub(super) type Work = BoxFuture<'static, Called>;

/// A call that moves to a background task if dropped before its end. It is aborted there when
/// another call needs the slot.
pub(super) struct Detached<W: Future<Output = Called> + Send + Unpin + 'static> {
    work: Option<W>,
    server: Arc<dyn Upstream>,
    channel: Arc<CallChannel>,
}

impl<W: Future<Output = Called> + Send + Unpin> Detached<W> {
    pub(super) fn new(work: W, server: Arc<dyn Upstream>, channel: Arc<CallChannel>) -> Self {
        Self { work: Some(work), server, channel }
    }

    pub(super) fn server(&self) -> Arc<dyn Upstream> {
        Arc::clone(&self.server)
    }

    /// Runs the call to its end, without moving it to a background task on drop.
    pub(super) async fn take(mut self) -> Called {
        match self.work.take() {
            Some(work) => work.await,
            None => std::future::pending().await,
        }
    }
}

impl<W: Future<Output = Called> + Send + Unpin> Future for Detached<W> {
    type Output = Called;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Called> {
        let Some(work) = self.work.as_mut() else { return Poll::Pending };
        let output = ready!(Pin::new(work).poll(cx));
        self.work = None;
        Poll::Ready(output)
    }
}

impl<W: Future<Output = Called> + Send + Unpin> Drop for Detached<W> {
    fn drop(&mut self) {
        let Some(work) = self.work.take() else { return };
        self.channel.record_departure();
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let server = Arc::clone(&self.server);
        runtime.spawn(async move {
            tokio::select! {
                _ = work => {}
                _promise = reclaim(&*server, None) => {
                    tracing::info!(server = server.slug(), "call abandoned: its client is gone \
                        and others are waiting");
                }
            }
        });
    }
}

/// Completes when an abandoned call has to free its slot for a waiting call. The caller keeps the
/// promise until the abandoned call has ended.
pub(super) async fn reclaim<'a>(server: &'a dyn Upstream, stream: Option<&Log>) -> Promise<'a> {
    loop {
        // A call with a client is not aborted for others.
        while !is_abandoned(stream) {
            tokio::time::sleep(ABSENCE_GRACE_PERIOD / 10).await;
        }
        let promise = server.calls().wanted().await;
        if is_abandoned(stream) {
            return promise;
        }
    }
}

/// Returns whether the client of a detached call is gone; with a stream, it may come back to read.
fn is_abandoned(stream: Option<&Log>) -> bool {
    stream.is_none_or(|stream| stream.is_abandoned())
}

/// Streams the first message and the further messages of a running call.
pub(super) fn stream_rest(
    first: Waiting,
    receiver: mpsc::Receiver<Waiting>,
    work: Work,
    open: OpenStream,
) -> Reply {
    let state: Option<StreamState> = Some((Some(first.text), receiver, work, open));
    let events = futures_util::stream::unfold(state, |state| async move {
        let (first, receiver, work, open) = state?;
        next_event(first, receiver, work, open).await
    });
    Reply::events(Box::pin(events))
}

/// Streams messages that arrived together with the response.
pub(super) fn stream_all(early: Vec<Waiting>, last: Text) -> Reply {
    let all = early.into_iter().map(|waiting| Text::Whole(waiting.text)).chain([last]);
    let events = futures_util::stream::iter(all.map(Outgoing::from));
    Reply::events(Box::pin(events))
}

/// State of an event stream: a message to send, and the sources of further messages.
type StreamState = (Option<Bytes>, mpsc::Receiver<Waiting>, Work, OpenStream);

async fn next_event(
    first: Option<Bytes>,
    mut receiver: mpsc::Receiver<Waiting>,
    mut work: Work,
    open: OpenStream,
) -> Option<(Outgoing, Option<StreamState>)> {
    if let Some(first) = first {
        return Some((Text::from(first).into(), Some((None, receiver, work, open))));
    }
    tokio::select! {
        biased;
        Some(waiting) = receiver.recv() => {
            Some((Text::from(waiting.text).into(), Some((None, receiver, work, open))))
        }
        (context, answer) = &mut work => {
            let last = write_final_text(&context, answer);
            match receiver.try_recv() {
                // Rare: a message that arrived with the response is sent first.
                Ok(waiting) => {
                    let work: Work = Box::pin(std::future::ready((context, Ok(last))));
                    Some((Text::from(waiting.text).into(), Some((None, receiver, work, open))))
                }
                Err(_) => Some((last.into(), None)),
            }
        }
    }
}

pub(super) fn write_final_text(
    context: &RequestContext,
    answer: Result<Text, RequestError>,
) -> Text {
    answer.unwrap_or_else(|problem| context.write_error(&problem).into())
}
