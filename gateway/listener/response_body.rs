//! Response bodies: empty, a text, three chunks of a text, a streamed body, an event stream with
//! keep-alive comments, or the fallback service's body. A single concrete type, so that a response
//! needs no box. Written bytes are charged to the budget until the connection has accepted them.

use std::collections::VecDeque;
use std::error::Error;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue};
use http::{HeaderMap, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use http_body_util::combinators::UnsyncBoxBody;
use lockgate_admission::budget::Hold;
use lockgate_protocol::{sse, write};
use lockgate_proxy::transport::{Events, Outgoing, Reply, ReplyBody, StreamedBody, Text};
use tokio::time::{Instant, Sleep};

use crate::connection::ActiveRequest;
use crate::error::ListenerError;
use crate::origin_check::add_preflight_headers;

pub type BoxError = Box<dyn Error + Send + Sync>;

/// The body of a response of the [`Fallback`](crate::Fallback).
pub type FallbackBody = UnsyncBoxBody<Bytes, BoxError>;

/// Parts of an event of at least this size are not copied.
const LARGE_PART: usize = 16 << 10;

const BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// The body of any response.
pub(crate) enum ResponseBody {
    Whole {
        bytes: Bytes,
        held: Option<Hold<ActiveRequest>>,
    },
    Spliced {
        chunks: Box<[Bytes; 3]>,
        held: Option<Hold<ActiveRequest>>,
    },
    Streamed {
        body: StreamedBody,
        active: ActiveRequest,
    },
    Events {
        stream: Box<EventStream>,
    },
    /// `is_events`: the frames are whole events.
    Fallback {
        body: FallbackBody,
        active: ActiveRequest,
        is_events: bool,
    },
}

/// Bytes on their way to a client. The last chunk of a body holds the memory of the whole body.
pub(crate) struct Chunk {
    bytes: Bytes,
    held: Option<Hold<ActiveRequest>>,
}

impl Chunk {
    fn new(bytes: Bytes, held: Option<Hold<ActiveRequest>>) -> Self {
        if let Some(held) = &held {
            held.by().add_pending_write();
        }
        Self { bytes, held }
    }
}

impl Buf for Chunk {
    fn remaining(&self) -> usize {
        self.bytes.len()
    }

    fn chunk(&self) -> &[u8] {
        &self.bytes
    }

    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
        if let Some(held) = &self.held {
            held.by().note_progress();
        }
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        if let Some(held) = &self.held {
            held.by().remove_pending_write();
        }
    }
}

/// A stream of events, with a comment line after each idle interval.
pub(crate) struct EventStream {
    /// Written before the first event.
    first: Bytes,
    /// The remaining chunks of a large event.
    rest: VecDeque<Chunk>,
    events: Events,
    interval: Duration,
    written: Instant,
    timer: Pin<Box<Sleep>>,
    /// Keeps the connection from counting as idle.
    active: ActiveRequest,
}

impl EventStream {
    pub(crate) fn new(
        first: Bytes,
        events: Events,
        interval: Duration,
        active: ActiveRequest,
    ) -> Self {
        // A timer of length zero would keep the stream always ready.
        let interval = interval.max(Duration::from_millis(10));
        let written = Instant::now();
        let timer = Box::pin(tokio::time::sleep(interval));
        Self { first, rest: VecDeque::new(), events, interval, written, timer, active }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Chunk>> {
        if !self.first.is_empty() {
            let first = std::mem::take(&mut self.first);
            return Poll::Ready(Some(self.sign(first)));
        }
        if let Some(chunk) = self.rest.pop_front() {
            self.written = Instant::now();
            return Poll::Ready(Some(chunk));
        }
        while let Poll::Ready(event) = self.events.as_mut().poll_next(cx) {
            let Some(event) = event else { return Poll::Ready(None) };
            if let Some(chunk) = self.counted(event) {
                self.written = Instant::now();
                return Poll::Ready(Some(chunk));
            }
        }
        if self.active.take_comment_request() {
            self.written = Instant::now();
            return Poll::Ready(Some(self.comment()));
        }
        loop {
            ready!(self.timer.as_mut().poll(cx));
            let now = Instant::now();
            let due = self.written + self.interval;
            if due > now {
                self.timer.as_mut().reset(due);
                continue;
            }
            self.written = now;
            self.timer.as_mut().reset(now + self.interval);
            return Poll::Ready(Some(self.comment()));
        }
    }

    fn comment(&self) -> Chunk {
        self.sign(write_comment())
    }

    /// Returns a chunk that holds no memory but reports write progress.
    fn sign(&self, bytes: Bytes) -> Chunk {
        Chunk::new(bytes, Some(Hold::none(self.active.duplicate())))
    }

    /// Returns an event that holds memory until written. If memory is insufficient, a response
    /// becomes an error response, and any other event is dropped.
    fn counted(&mut self, mut event: Outgoing) -> Option<Chunk> {
        let mut held = Hold::none(self.active.duplicate());
        let large = large_event(&event);
        // Data not written chunk by chunk is copied once more.
        let own = if large.is_some() { event.data.own_len() } else { event.data.len() };
        if held.admit(own).is_ok() {
            return Some(match large {
                Some(chunks) => self.divide(chunks, held),
                None => Chunk::new(event_text(&event), Some(held)),
            });
        }
        tracing::info!(
            bytes = event.data.len(),
            "an event was dropped: limits.bytes_in_flight is reached"
        );
        event.data =
            ListenerError::Unread.text(Some(write::id_of_response(event.data.start())?)).into();
        Some(Chunk::new(event_text(&event), Some(held)))
    }

    /// Returns the first chunk of a large event and queues the rest. The last holds the memory.
    fn divide(&mut self, chunks: [Bytes; 3], held: Hold<ActiveRequest>) -> Chunk {
        let [first, middle, last] = chunks;
        let first = self.sign(first);
        let middle = self.sign(middle);
        self.rest.extend([middle, Chunk::new(last, Some(held))]);
        first
    }
}

fn write_comment() -> Bytes {
    let mut out = BytesMut::with_capacity(3);
    sse::comment(&mut out);
    out.freeze()
}

/// Returns the chunks of an event with a large part that can be written without a copy. Data with
/// line breaks cannot, because each line needs a `data:` prefix.
fn large_event(event: &Outgoing) -> Option<[Bytes; 3]> {
    let [head, middle, tail] = event.data.chunks() else { return None };
    if middle.len() < LARGE_PART || has_break(head) || has_break(middle) || has_break(tail) {
        return None;
    }
    let mut first = BytesMut::with_capacity(head.len() + 64);
    // `encode` ends the event with an empty line, which belongs after the last chunk.
    sse::encode(&mut first, event.id.as_deref(), head);
    first.truncate(first.len().saturating_sub(2));
    let mut last = BytesMut::with_capacity(tail.len() + 2);
    last.extend_from_slice(tail);
    last.extend_from_slice(b"\n\n");
    Some([first.freeze(), middle.clone(), last.freeze()])
}

/// Returns the next non-empty chunk; the last chunk takes the hold of the whole body.
fn next_chunk(chunks: &mut [Bytes; 3], held: &mut Option<Hold<ActiveRequest>>) -> Option<Chunk> {
    let mut left = chunks.iter_mut().filter(|chunk| !chunk.is_empty());
    let chunk = left.next()?;
    let held = match held {
        // Each chunk reports write progress.
        Some(whole) if left.next().is_some() => Some(Hold::none(whole.by().duplicate())),
        last => last.take(),
    };
    Some(Chunk::new(std::mem::take(chunk), held))
}

fn has_break(chunk: &[u8]) -> bool {
    memchr::memchr2(b'\r', b'\n', chunk).is_some()
}

fn event_text(event: &Outgoing) -> Bytes {
    let id = event.id.as_deref();
    let mut out = BytesMut::with_capacity(event.data.len() + id.unwrap_or("").len() + 64);
    if event.data.is_empty() || event.retry.is_some() {
        sse::retry(&mut out, event.retry, id);
    }
    if !event.data.is_empty() {
        // `retry` has already written the id; a repetition is harmless.
        match &event.data {
            Text::Whole(data) => sse::encode(&mut out, id, data),
            other => sse::encode(&mut out, id, &other.clone().into_bytes()),
        }
    }
    out.freeze()
}

impl ResponseBody {
    pub(crate) const fn empty() -> Self {
        Self::whole(Bytes::new())
    }

    /// Returns a short body that holds no memory.
    pub(crate) const fn whole(bytes: Bytes) -> Self {
        Self::Whole { bytes, held: None }
    }
}

impl Body for ResponseBody {
    type Data = Chunk;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Chunk>, BoxError>>> {
        let chunk = match self.get_mut() {
            Self::Whole { bytes, .. } if bytes.is_empty() => None,
            Self::Whole { bytes, held } => Some(Chunk::new(std::mem::take(bytes), held.take())),
            Self::Spliced { chunks, held } => next_chunk(chunks, held),
            Self::Streamed { body, active } => match ready!(body.as_mut().poll_next(cx)) {
                // The piece reports write progress; the pieces are already charged to the budget.
                Some(Ok(piece)) => Some(Chunk::new(piece, Some(Hold::none(active.duplicate())))),
                Some(Err(error)) => return Poll::Ready(Some(Err(error.into()))),
                None => None,
            },
            Self::Events { stream } => ready!(stream.poll(cx)),
            Self::Fallback { body, active, is_events } => match Pin::new(body).poll_frame(cx) {
                Poll::Ready(frame) => {
                    let frame = frame.map(|frame| {
                        frame.map(|frame| frame.map_data(|bytes| Chunk::new(bytes, None)))
                    });
                    return Poll::Ready(frame);
                }
                Poll::Pending if *is_events && active.take_comment_request() => {
                    Some(Chunk::new(write_comment(), None))
                }
                Poll::Pending => return Poll::Pending,
            },
        };
        Poll::Ready(chunk.map(|chunk| Ok(Frame::data(chunk))))
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole { bytes, .. } => bytes.is_empty(),
            Self::Spliced { chunks, .. } => chunks.iter().all(Bytes::is_empty),
            Self::Streamed { .. } | Self::Events { .. } => false,
            Self::Fallback { body, .. } => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole { bytes, .. } => SizeHint::with_exact(bytes.len() as u64),
            Self::Spliced { chunks, .. } => {
                SizeHint::with_exact(chunks.iter().map(|chunk| chunk.len() as u64).sum())
            }
            Self::Streamed { .. } | Self::Events { .. } => SizeHint::default(),
            Self::Fallback { body, .. } => body.size_hint(),
        }
    }
}

/// Converts a reply to an HTTP response with `headers` and its own. `held` is the memory of its
/// body.
pub(crate) fn build_response(
    mut headers: HeaderMap,
    mut reply: Reply,
    keep_alive: Duration,
    held: Hold<ActiveRequest>,
) -> Response<ResponseBody> {
    headers.extend(reply.take_headers());
    if matches!(reply.body, ReplyBody::Message(_) | ReplyBody::Streamed(_)) {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    let body = match reply.body {
        ReplyBody::Message(Text::Whole(bytes)) => ResponseBody::Whole { bytes, held: Some(held) },
        ReplyBody::Message(Text::Spliced(chunks) | Text::Shared(chunks)) => {
            ResponseBody::Spliced { chunks, held: Some(held) }
        }
        ReplyBody::Streamed(body) | ReplyBody::Relayed(body) => {
            ResponseBody::Streamed { body, active: held.by().duplicate() }
        }
        ReplyBody::Empty => ResponseBody::empty(),
        ReplyBody::Events(events) => {
            let active = held.by().duplicate();
            return stream(headers, EventStream::new(Bytes::new(), events, keep_alive, active));
        }
    };
    assemble_response(reply.status, headers, body)
}

/// Converts a rejection, which is short and never a stream, to a response of the fallback service.
pub(crate) fn plain(mut reply: Reply) -> Response<Bytes> {
    let mut headers = reply.take_headers();
    let (status, bytes) = match reply.body {
        ReplyBody::Message(text) => (reply.status, text.into_bytes()),
        ReplyBody::Empty => (reply.status, Bytes::new()),
        _ => (StatusCode::UNAUTHORIZED, Bytes::new()),
    };
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if !bytes.is_empty() {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    }
    assemble_response(status, headers, bytes)
}

pub(crate) fn stream(mut headers: HeaderMap, stream: EventStream) -> Response<ResponseBody> {
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(BUFFERING, HeaderValue::from_static("no"));
    assemble_response(StatusCode::OK, headers, ResponseBody::Events { stream: Box::new(stream) })
}

pub(crate) fn assemble_response<B>(status: StatusCode, headers: HeaderMap, body: B) -> Response<B> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

/// Answers OPTIONS with the allowed methods, for pages (CORS) and other clients.
pub(crate) fn answer_preflight(
    request: &HeaderMap,
    methods: &'static str,
) -> Response<ResponseBody> {
    let mut headers = HeaderMap::new();
    headers.insert(ALLOW, HeaderValue::from_static(methods));
    if request.contains_key(http::header::ORIGIN) {
        add_preflight_headers(&mut headers, request, methods);
    }
    assemble_response(StatusCode::NO_CONTENT, headers, ResponseBody::empty())
}

#[cfg(test)]
mod tests;
