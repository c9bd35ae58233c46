//! Streamed large responses: a server's bytes are rewritten and passed to the client as they
//! arrive, so that the whole response is never held in memory. If a response turns out to be
//! invalid after its start was forwarded, the client's connection is closed.

mod rewrite;

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::Stream;
use lockgate_admission::budget::{Budget, Hold};
use lockgate_protocol::method::Method;
use lockgate_protocol::revision::Revision;
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
use crate::skills;
use crate::transport::{BodyError, Reply, ReplyBody, Text};
use rewrite::{Rewriter, Shape};

/// Bytes rewritten at a time.
const SLICE_BYTES: usize = 64 << 10;
/// Rewritten slices queued for the client.
const MAX_QUEUED_SLICES: usize = 4;
/// Bytes that a streamed response reserves in the budget: the queued slices and the connection's
/// read-ahead.
const RESERVED_BYTES: usize = 512 << 10;
/// Time after which rewriting yields to other tasks.
const YIELD_INTERVAL: Duration = Duration::from_millis(1);

/// A large response of a call that can be streamed to its client.
pub struct Relay {
    client_id: Bytes,
    has_ttl: bool,
    info: Option<Arc<[u8]>>,
    server: Arc<dyn Upstream>,
    namespaced: bool,
    depth: usize,
    budget: Arc<Budget>,
    /// If this channel already has a stream, the response goes there instead.
    channel: Option<Arc<CallChannel>>,
    state: Mutex<RelayState>,
}

#[derive(Default)]
struct RelayState {
    stream: Option<Box<OpenAnswer>>,
    pieces: Option<Receiver<Bytes>>,
    /// Set when the response ended.
    outcome: Option<Outcome>,
    client_wait: Duration,
}

/// A partially sent response.
struct OpenAnswer {
    scanner: StreamScanner,
    rewriter: Rewriter,
    client: Sender<Bytes>,
    _hold: Hold,
}

impl Relay {
    /// Creates a relay, unless the response requires processing that needs its end: a policy rule
    /// on responses, a file of a skill, or a client revision that lacks some kinds of content.
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
            || permitted.method() == Method::ResourcesRead && skills::reads_file(context, permitted)
            || !permitted.server().streams_answers()
        {
            return None;
        }
        let depth = context.snapshot.config.limits.depth;
        Some(Self {
            client_id: context.request.id_bytes(),
            has_ttl: permitted.method() == Method::ResourcesRead,
            info: context.info().cloned(),
            server: Arc::clone(permitted.server()),
            namespaced: context.view.namespaced,
            depth,
            budget: Arc::clone(budget),
            channel: None,
            state: Mutex::default(),
        })
    }

    /// Adds the channel of a call that may open a stream.
    pub(crate) fn beside(self, channel: &Arc<CallChannel>) -> Self {
        Self { channel: Some(Arc::clone(channel)), ..self }
    }

    pub(crate) fn outcome(&self) -> Option<Outcome> {
        self.state.lock().outcome
    }

    /// Waits until the response begins to arrive, and returns its pieces. Must be polled by the
    /// task that polls the call, after the call.
    pub async fn pieces(relay: Option<&Arc<Self>>) -> (Arc<Self>, Receiver<Bytes>) {
        let Some(relay) = relay else { return std::future::pending().await };
        // No waker is needed: only the call sets `pieces`, and this task polls it first.
        let pieces = std::future::poll_fn(|_| match relay.state.lock().pieces.take() {
            Some(pieces) => Poll::Ready(pieces),
            None => Poll::Pending,
        });
        (Arc::clone(relay), pieces.await)
    }

    /// Returns the reply of a call that has ended, if its response went through the relay. A
    /// response that has already arrived begins and ends in a single poll of the call.
    pub fn ended(relay: Option<&Arc<Self>>, answer: &Result<Text, RequestError>) -> Option<Reply> {
        let relay = relay.filter(|_| answer.is_ok())?;
        let pieces = relay.state.lock().pieces.take()?;
        let ended = std::future::ready(((), Ok(Text::default())));
        Some(stream_message(Arc::clone(relay), ended, pieces))
    }

    /// Rewrites the next part of the response and returns the output for the client.
    fn rewrite(&self, part: &[u8]) -> Result<Option<(Bytes, Sender<Bytes>)>, SinkError> {
        let mut state = self.state.lock();
        let Some(stream) = &mut state.stream else { return Err(SinkError::ClientGone) };
        if let Err(error) = stream.scanner.push(part, &mut stream.rewriter) {
            return Err(SinkError::Invalid(error.to_string()));
        }
        let output = stream.rewriter.take_output();
        if output.is_empty() { Ok(None) } else { Ok(Some((output, stream.client.clone()))) }
    }
}

impl ResponseSink for Relay {
    fn begin(&self, id: u64, start: &[u8]) -> bool {
        let mut state = self.state.lock();
        let has_stream = matches!(&self.channel, Some(channel) if channel.has_stream());
        let mut hold = Hold::none(Arc::clone(&self.budget));
        if has_stream
            || state.stream.is_some()
            || state.outcome.is_some()
            || hold.grow(RESERVED_BYTES).is_err()
        {
            return false;
        }
        let mut scanner = StreamScanner::new(self.depth);
        // Deferred to this point, because few responses are large.
        let slug = if self.namespaced { Some(self.server.slug().to_owned()) } else { None };
        let mut rewriter = Rewriter::new(Shape {
            client_id: self.client_id.clone(),
            server_id: id,
            has_ttl: self.has_ttl,
            slug,
            info: self.info.clone(),
        });
        if scanner.push(start, &mut rewriter).is_err() || !rewriter.is_within_content() {
            return false;
        }
        let (client, pieces) = mpsc::channel(MAX_QUEUED_SLICES);
        // The channel is empty, so this cannot fail.
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
            for part in piece.chunks(SLICE_BYTES) {
                if let Some((output, client)) = self.rewrite(part)?
                    && client.send(output).await.is_err()
                {
                    self.state.lock().outcome = Some(Outcome::Cancelled);
                    return Err(SinkError::ClientGone);
                }
                if began.elapsed() >= YIELD_INTERVAL {
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

/// Returns the reply for a response that has begun to arrive through `pieces`. `work` is the call,
/// which is polled as part of the reply's body.
pub fn stream_message<W, T>(relay: Arc<Relay>, work: W, pieces: Receiver<Bytes>) -> Reply
where
    W: Future<Output = (T, Result<Text, RequestError>)> + Send + Unpin + 'static,
{
    let body = Body { relay, work: Some(work), pieces, handed_over: None };
    ReplyBody::Streamed(Box::pin(body)).into()
}

/// The body of a streamed response; ends when the call has ended.
struct Body<W> {
    relay: Arc<Relay>,
    work: Option<W>,
    pieces: Receiver<Bytes>,
    /// When the connection last took a piece. Until the connection polls again it waits for the
    /// client, and the call makes no progress.
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
            let received = self.pieces.poll_recv(context);
            if let Poll::Ready(Some(piece)) = received {
                self.handed_over = Some(Instant::now());
                return Poll::Ready(Some(Ok(piece)));
            }
            // Not the end if pending: pieces may wait for the task's budget in tokio.
            let Some(work) = &mut self.work else { return received.map(|_| None) };
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
            self.pieces.close();
            if let Err(problem) = answer {
                tracing::info!(reason = %problem.message, "a response failed after its start was \
                    sent");
                return Poll::Ready(Some(Err(BodyError)));
            }
        }
    }
}
