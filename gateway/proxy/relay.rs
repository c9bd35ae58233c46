//! Large answers on their way through: a server's bytes are rewritten and handed to the client
//! while they come in, so that nobody keeps all of them. An answer that turns out to be none after
//! its start ends the client's connection.

mod rewrite;

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::Stream;
use http::HeaderMap;
use lockgate_admission::budget::{Budget, Hold};
use lockgate_protocol::method::Method;
use lockgate_protocol::revision::{Era, Revision};
use lockgate_protocol::scan::StreamScanner;
use lockgate_telemetry::Outcome;
use lockgate_upstream::{BoxFuture, ResponseSink, SinkError, Upstream};
use parking_lot::Mutex;
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::time::Instant;

use crate::authorize::Permitted;
use crate::client_channel::CallChannel;
use crate::context::RequestContext;
use crate::rescue::RequestError;
use crate::transport::{BodyError, Reply, Text};
use rewrite::{Rewriter, Shape};

/// Bytes that are rewritten at once.
const SLICE: usize = 64 << 10;
/// Slices that wait for the client.
const WAITING: usize = 4;
/// What an answer on its way through takes of the account: the slices that wait, and what the
/// connection has read ahead.
const WINDOW: usize = 512 << 10;
/// How long rewriting may go on without leaving the thread to others.
const TURN: Duration = Duration::from_millis(1);

/// Where the large answer to one call goes.
pub(crate) struct Relay {
    shape: Shape,
    server: Arc<dyn Upstream>,
    namespaced: bool,
    depth: usize,
    budget: Arc<Budget>,
    /// An answer that has a stream already goes there.
    channel: Option<Arc<CallChannel>>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    stream: Option<Box<OpenAnswer>>,
    pieces: Option<Receiver<Bytes>>,
    /// How it ended.
    outcome: Option<Outcome>,
    client_wait: Duration,
}

/// An answer of which the client has the start.
struct OpenAnswer {
    scanner: StreamScanner,
    rewriter: Rewriter,
    client: Sender<Bytes>,
    _hold: Hold,
}

impl Relay {
    /// For a call whose answer needs nothing that is only known at its end: no rule of policy on
    /// what comes back, and a client that knows all kinds of content.
    pub(crate) fn new(
        context: &RequestContext,
        permitted: &Permitted,
        budget: &Arc<Budget>,
    ) -> Option<Self> {
        let has_content = matches!(
            permitted.method(),
            Method::ToolsCall | Method::PromptsGet | Method::ResourcesRead
        );
        let is_plain = permitted.response().is_none() && context.revision >= Revision::V2025_06_18;
        if !context.takes_streamed_body
            || !has_content
            || !is_plain
            || !permitted.server().streams_answers()
        {
            return None;
        }
        let shape = Shape {
            client_id: context.request.id_bytes(),
            server_id: 0,
            modern: context.era() == Era::Modern,
            has_ttl: permitted.method() == Method::ResourcesRead,
            slug: None,
            info: Arc::clone(&context.snapshot.info),
        };
        let depth = context.snapshot.config.limits.depth;
        Some(Self {
            shape,
            server: Arc::clone(permitted.server()),
            namespaced: context.view.namespaced,
            depth,
            budget: Arc::clone(budget),
            channel: None,
            state: Mutex::default(),
        })
    }

    /// The same for a call that may have a stream of its own.
    pub(crate) fn beside(self, channel: &Arc<CallChannel>) -> Self {
        Self { channel: Some(Arc::clone(channel)), ..self }
    }

    /// How the answer ended, if it went this way.
    pub(crate) fn outcome(&self) -> Option<Outcome> {
        self.state.lock().outcome
    }

    /// Waits until the answer has begun to come this way: what it comes through. To be polled by
    /// the task of the call, after it.
    pub(crate) async fn pieces(relay: Option<&Arc<Self>>) -> (Arc<Self>, Receiver<Bytes>) {
        let Some(relay) = relay else { return std::future::pending().await };
        // Only the call itself changes it, which is polled by the same task.
        let pieces = std::future::poll_fn(|_| match relay.state.lock().pieces.take() {
            Some(pieces) => Poll::Ready(pieces),
            None => Poll::Pending,
        });
        (Arc::clone(relay), pieces.await)
    }

    /// Rewrites the next part; gives what the client gets of it.
    fn rewrite(&self, part: &[u8]) -> Result<Option<(Bytes, Sender<Bytes>)>, SinkError> {
        let mut state = self.state.lock();
        let Some(stream) = &mut state.stream else { return Err(SinkError::ClientGone) };
        if let Err(error) = stream.scanner.push(part, &mut stream.rewriter) {
            return Err(SinkError::Invalid(error.to_string()));
        }
        let output = stream.rewriter.take_output();
        if output.is_empty() {
            return Ok(None);
        }
        Ok(Some((output, stream.client.clone())))
    }
}

impl ResponseSink for Relay {
    fn begin(&self, id: u64, start: &[u8]) -> bool {
        let mut state = self.state.lock();
        let has_stream = matches!(&self.channel, Some(channel) if channel.stream().is_some());
        let mut hold = Hold::none(Arc::clone(&self.budget));
        if has_stream
            || state.stream.is_some()
            || state.outcome.is_some()
            || hold.grow(WINDOW).is_err()
        {
            return false;
        }
        let mut scanner = StreamScanner::new(self.depth);
        // Written now, because few answers are large.
        let slug = if self.namespaced { Some(self.server.slug().to_owned()) } else { None };
        let mut rewriter = Rewriter::new(Shape { server_id: id, slug, ..self.shape.clone() });
        if scanner.push(start, &mut rewriter).is_err() || !rewriter.is_within_content() {
            return false;
        }
        let (client, pieces) = mpsc::channel(WAITING);
        // There is room for the first.
        let _ = client.try_send(rewriter.take_output());
        state.stream = Some(Box::new(OpenAnswer { scanner, rewriter, client, _hold: hold }));
        state.pieces = Some(pieces);
        true
    }

    fn has_begun(&self) -> bool {
        let state = self.state.lock();
        state.stream.is_some() || state.outcome.is_some()
    }

    fn write(&self, piece: Bytes) -> BoxFuture<'_, Result<(), SinkError>> {
        Box::pin(async move {
            let mut began = Instant::now();
            for part in piece.chunks(SLICE) {
                if let Some((output, client)) = self.rewrite(part)?
                    && client.send(output).await.is_err()
                {
                    self.state.lock().outcome = Some(Outcome::Cancelled);
                    return Err(SinkError::ClientGone);
                }
                if began.elapsed() >= TURN {
                    tokio::task::yield_now().await;
                    began = Instant::now();
                }
            }
            Ok(())
        })
    }

    fn finish(&self) -> BoxFuture<'_, Result<(), SinkError>> {
        Box::pin(async move {
            let mut state = self.state.lock();
            let Some(stream) = state.stream.take() else { return Err(SinkError::ClientGone) };
            if let Err(fault) = stream.scanner.finish() {
                state.stream = Some(stream);
                return Err(SinkError::Invalid(fault.to_string()));
            }
            state.outcome =
                Some(if stream.rewriter.is_error() { Outcome::ToolError } else { Outcome::Ok });
            Ok(())
        })
    }

    fn client_wait(&self) -> Duration {
        self.state.lock().client_wait
    }
}

/// The reply that carries an answer which has begun to come through `pieces`; `work` is the call,
/// which goes on.
pub(crate) fn stream_message<W, T>(relay: Arc<Relay>, work: W, pieces: Receiver<Bytes>) -> Reply
where
    W: Future<Output = (T, Result<Text, RequestError>)> + Send + Unpin + 'static,
{
    let body = Body { relay, work: Some(work), pieces, handed_over: None };
    Reply::StreamedMessage { headers: HeaderMap::new(), body: Box::pin(body) }
}

/// The pieces of an answer as they come, and its end once the call has ended.
struct Body<W> {
    relay: Arc<Relay>,
    work: Option<W>,
    pieces: Receiver<Bytes>,
    /// When the connection got a piece. Until it asks for the next one it waits for the client, and
    /// the call stands still.
    handed_over: Option<Instant>,
}

impl<W, T> Stream for Body<W>
where
    W: Future<Output = (T, Result<Text, RequestError>)> + Unpin,
{
    type Item = Result<Bytes, BodyError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some(since) = self.handed_over.take() {
            self.relay.state.lock().client_wait += since.elapsed();
        }
        loop {
            if let Poll::Ready(Some(piece)) = self.pieces.poll_recv(context) {
                self.handed_over = Some(Instant::now());
                return Poll::Ready(Some(Ok(piece)));
            }
            let Some(work) = &mut self.work else { return Poll::Ready(None) };
            let Poll::Ready((_, answer)) = Pin::new(work).poll(context) else {
                return match self.pieces.poll_recv(context) {
                    Poll::Ready(Some(piece)) => {
                        self.handed_over = Some(Instant::now());
                        Poll::Ready(Some(Ok(piece)))
                    }
                    _ => Poll::Pending,
                };
            };
            self.work = None;
            if let Err(problem) = answer {
                tracing::info!(reason = %problem.message, "an answer broke off after its start");
                return Poll::Ready(Some(Err(BodyError)));
            }
        }
    }
}
