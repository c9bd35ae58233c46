//! An HTTP/1.1 connection that its caller drives: no task, no channel, and a single `writev` for a
//! request that the socket accepts at once. Rejects responses on whose end parsers disagree.

mod head;

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use bytes::{Buf, Bytes, BytesMut};
use http::header::{CONTENT_LENGTH, HOST, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tokio_util::either::Either;

use head::Framing;
pub use head::{Http1Error, ResponseHead};

use crate::connect::Stream;

/// Longest response head in bytes, with all interim responses.
const MAX_HEAD: usize = 64 << 10;
/// Largest read-ahead of a connection in bytes. A body of at most this length arrives in one piece,
/// for which readers with a budget reserve memory before.
pub const MAX_READ_AHEAD: usize = 128 << 10;
/// Largest memory in bytes that an idle connection keeps for the head of its next request.
const MAX_KEPT: usize = 64 << 10;
/// Free space for a read of unknown length.
const MIN_READ: usize = 8 << 10;

/// The pool of connections waiting for their next request.
pub(crate) trait IdleConnections: Send + Sync {
    /// Keeps a connection, or closes it if there are enough.
    fn keep(self: Arc<Self>, connection: Box<Http1Connection>);
}

/// A connection. Dropping it closes the socket, in any state of the exchange.
pub(crate) struct Http1Connection {
    stream: Stream,
    /// Received bytes that are not consumed.
    input: BytesMut,
    /// The head of the request and a start of its body.
    head: Vec<u8>,
    /// Number of bytes of `head` that are written.
    written: usize,
    /// No written bytes wait in the TLS session.
    is_flushed: bool,
    /// The rest of the request's body.
    output: Payload,
    /// The rest of the response's body.
    framing: Framing,
    is_reusable: bool,
}

impl Http1Connection {
    pub(crate) fn new(stream: Stream, (head, output): (Vec<u8>, Payload)) -> Box<Self> {
        Box::new(Self {
            stream,
            input: BytesMut::new(),
            head,
            written: 0,
            is_flushed: false,
            output,
            framing: Framing::Ended,
            is_reusable: true,
        })
    }

    /// Sets the next request.
    pub(crate) fn start(&mut self, (head, body): (Vec<u8>, Payload)) {
        self.head = head;
        self.written = 0;
        self.is_flushed = false;
        self.output = body;
    }

    /// Forgets the request, but keeps the memory of its head, if small, for the next.
    pub(crate) fn finish_request(&mut self) {
        self.output = Payload::default();
        if self.head.capacity() > MAX_KEPT {
            self.head = Vec::new();
        }
    }

    /// Returns the memory of the last head.
    pub(crate) fn take_buffer(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.head)
    }

    /// Returns the request if none of it was written.
    pub(crate) fn take_unsent(&mut self) -> Option<(Vec<u8>, Payload)> {
        if self.written > 0 {
            return None;
        }
        Some((std::mem::take(&mut self.head), std::mem::take(&mut self.output)))
    }

    /// Reports whether the stream has accepted the request.
    fn is_accepted(&self) -> bool {
        self.written >= self.head.len() && self.output.len() == 0
    }

    /// Reports whether the request is written.
    fn is_written(&self) -> bool {
        self.is_flushed && self.is_accepted()
    }

    /// Writes the request and receives the head of its response. `is_head` states that the request
    /// method is HEAD.
    pub(crate) async fn receive_head<T>(
        &mut self,
        is_head: bool,
        read: impl Fn(&ResponseHead<'_, '_>) -> Result<T, Http1Error>,
    ) -> Result<T, Http1Error> {
        std::future::poll_fn(|cx| self.poll_written(cx)).await?;
        let mut spent = 0;
        loop {
            let length = std::future::poll_fn(|cx| self.poll_head(spent, cx)).await?;
            let head = self.read_head(length, is_head, &read)?;
            self.input.advance(length);
            spent += length;
            if let Some(head) = head {
                return Ok(head);
            }
        }
    }

    /// Reads a head of this length; returns `None` for an interim response.
    fn read_head<T>(
        &mut self,
        length: usize,
        is_head: bool,
        read: impl Fn(&ResponseHead<'_, '_>) -> Result<T, Http1Error>,
    ) -> Result<Option<T>, Http1Error> {
        let mut room = [const { MaybeUninit::uninit() }; head::MAX_HEADERS];
        let head = ResponseHead::parse(self.input.get(..length).unwrap_or(&[]), &mut room)?;
        if head.status == StatusCode::SWITCHING_PROTOCOLS {
            return Err(Http1Error::Invalid("an unrequested change of protocol"));
        }
        if head.status.is_informational() {
            return Ok(None);
        }
        self.framing = head.framing(is_head)?;
        self.is_reusable &= head.is_persistent() && self.framing != Framing::UntilClose;
        read(&head).map(Some)
    }

    /// Reports whether the response is complete.
    pub(crate) fn is_ended(&self) -> bool {
        self.framing == Framing::Ended
    }

    /// Reports whether the next exchange can start once this one is complete.
    pub(crate) fn is_reusable(&self) -> bool {
        self.is_reusable && self.input.is_empty() && self.is_written()
    }

    /// Reports whether an idle connection is open and the server has sent nothing on it, as far as
    /// detected. Makes no system call unless something has arrived.
    pub(crate) fn is_quiet(&mut self) -> bool {
        let mut byte = [0];
        match &mut self.stream {
            Either::Left(tcp) => {
                matches!(tcp.try_read(&mut byte), Err(e) if e.kind() == io::ErrorKind::WouldBlock)
            }
            Either::Right(tls) => {
                let mut cx = Context::from_waker(Waker::noop());
                Pin::new(tls).poll_read(&mut cx, &mut ReadBuf::new(&mut byte)).is_pending()
            }
        }
    }

    /// Returns the length of the rest of the body, if known.
    pub(crate) fn length(&self) -> Option<u64> {
        match self.framing {
            Framing::Ended => Some(0),
            Framing::Length(left) => Some(left),
            _ => None,
        }
    }

    /// Returns the next piece of the body; `None` at its end. An empty piece reports that bytes
    /// have arrived.
    pub(crate) fn poll_data(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, Http1Error>> {
        loop {
            self.framing.advance(&mut self.input)?;
            let left = match self.framing {
                Framing::Ended => return Poll::Ready(Ok(None)),
                Framing::Length(left) | Framing::Chunk(left) => {
                    usize::try_from(left).unwrap_or(usize::MAX)
                }
                _ => 1,
            };
            let is_short = matches!(self.framing, Framing::Length(_)) && left <= MAX_READ_AHEAD;
            if !(is_short && self.input.len() < left)
                && let Some(piece) = self.framing.take(&mut self.input)
            {
                // Recognises an end that has arrived; a fault is reported by the next call.
                let _ = self.framing.advance(&mut self.input);
                return Poll::Ready(Ok(Some(piece)));
            }
            let room = left.saturating_sub(self.input.len()).clamp(MIN_READ, MAX_READ_AHEAD);
            if ready!(self.poll_read(room, cx))? == 0 {
                return Poll::Ready(self.framing.close().map(|()| None));
            }
            if is_short && self.input.len() < left {
                return Poll::Ready(Ok(Some(Bytes::new())));
            }
        }
    }

    /// Waits until the request is written, or the server answers before that.
    fn poll_written(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Http1Error>> {
        match self.poll_write(cx) {
            Poll::Ready(Err(error)) if self.written == 0 => Poll::Ready(Err(error.into())),
            Poll::Pending if self.written == 0 => Poll::Pending,
            // The rest is written by `poll_read`, because a server may answer before it has read
            // the request. So an answer before an error is read, too.
            _ => Poll::Ready(Ok(())),
        }
    }

    fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.is_accepted() {
            let head = self.head.get(self.written..).unwrap_or(&[]);
            let [first, second] = self.output.0.each_ref().map(|piece| &piece[..]);
            let slices = [head, first, second].map(IoSlice::new);
            let mut count =
                match ready!(Pin::new(&mut self.stream).poll_write_vectored(cx, &slices)) {
                    Ok(0) => return self.fail_write(io::ErrorKind::WriteZero.into()),
                    Ok(count) => count,
                    Err(error) => return self.fail_write(error),
                };
            let part = count.min(head.len());
            self.written += part;
            count -= part;
            for piece in &mut self.output.0 {
                let part = count.min(piece.len());
                piece.advance(part);
                count -= part;
            }
        }
        // A TLS session accepts bytes that the socket does not take yet.
        if let Err(error) = ready!(Pin::new(&mut self.stream).poll_flush(cx)) {
            return self.fail_write(error);
        }
        self.is_flushed = true;
        Poll::Ready(Ok(()))
    }

    /// Gives up the rest of the request.
    fn fail_write(&mut self, error: io::Error) -> Poll<io::Result<()>> {
        self.is_reusable = false;
        if self.written > 0 {
            self.head.clear();
            self.output = Payload::default();
            self.is_flushed = true;
        }
        Poll::Ready(Err(error))
    }

    /// Waits for a complete head and returns its length.
    fn poll_head(&mut self, spent: usize, cx: &mut Context<'_>) -> Poll<Result<usize, Http1Error>> {
        loop {
            if let Some(length) = head::find_end(&self.input) {
                return if spent + length > MAX_HEAD {
                    Poll::Ready(Err(Http1Error::TooLarge))
                } else {
                    Poll::Ready(Ok(length))
                };
            }
            if spent + self.input.len() > MAX_HEAD {
                return Poll::Ready(Err(Http1Error::TooLarge));
            }
            if ready!(self.poll_read(MIN_READ, cx))? == 0 {
                return Poll::Ready(Err(Http1Error::Incomplete));
            }
        }
    }

    /// Reads into at least `room` bytes of free space, and writes any rest of the request.
    fn poll_read(&mut self, room: usize, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if !self.is_written() {
            // An error is reported by the read, unless the server has answered.
            let _ = self.poll_write(cx);
        }
        self.input.reserve(room);
        pin!(self.stream.read_buf(&mut self.input)).poll(cx)
    }
}

/// The body of a request; some pieces may be empty.
#[derive(Clone, Debug, Default)]
pub struct Payload(pub(crate) [Bytes; 2]);

impl Payload {
    pub(crate) fn len(&self) -> usize {
        self.0.iter().map(Bytes::len).sum()
    }
}

impl From<[Bytes; 2]> for Payload {
    fn from(pieces: [Bytes; 2]) -> Self {
        Self(pieces)
    }
}

impl From<Bytes> for Payload {
    fn from(text: Bytes) -> Self {
        Self([text, Bytes::new()])
    }
}

#[cfg(test)]
mod tests;

/// Room for the headers of a single request, in bytes.
const ADDED_BYTES: usize = 256;

/// The head of a request without the framing of its body.
#[derive(Clone, Debug)]
pub struct RequestHead(Vec<u8>);

impl RequestHead {
    /// Writes a request line and headers, except those that frame a body.
    pub(crate) fn new(method: &Method, target: &str, headers: &HeaderMap) -> Self {
        let mut size = target.len() + 64;
        for (name, value) in headers {
            size += name.as_str().len() + value.len() + 4;
        }
        let mut head = Self(Vec::with_capacity(size));
        for part in [method.as_str(), " ", target, " HTTP/1.1\r\n"] {
            head.0.extend_from_slice(part.as_bytes());
        }
        for (name, value) in headers {
            if name != CONTENT_LENGTH && name != TRANSFER_ENCODING {
                head.write(name.as_str(), value.as_bytes());
            }
        }
        head
    }

    /// Writes a copy with room for further headers, and for so many bytes of a body.
    pub(crate) fn copy_to(&self, mut buffer: Vec<u8>, body: usize) -> Self {
        buffer.clear();
        buffer.reserve(self.0.len() + ADDED_BYTES + body);
        buffer.extend_from_slice(&self.0);
        Self(buffer)
    }

    /// Adds a header, unless its value cannot be sent.
    pub(crate) fn add(&mut self, name: &str, value: &[u8]) {
        // HTTP permits visible characters, blanks and tabs.
        if value.iter().all(|&byte| byte >= b' ' && byte != 127 || byte == b'\t') {
            self.write(name, value);
        }
    }

    fn write(&mut self, name: &str, value: &[u8]) {
        for part in [name.as_bytes(), b": ", value, b"\r\n"] {
            self.0.extend_from_slice(part);
        }
    }

    /// Ends the head of a request with a body of this length.
    pub(crate) fn with_length(mut self, length: usize) -> Vec<u8> {
        self.write(CONTENT_LENGTH.as_str(), itoa::Buffer::new().format(length).as_bytes());
        self.end()
    }

    fn end(mut self) -> Vec<u8> {
        self.0.extend_from_slice(b"\r\n");
        self.0
    }
}

/// Writes the head of a request with this `Host`. The length of its body replaces any framing among
/// the headers.
pub(crate) fn write_request(
    mut request: Request<Payload>,
    host: HeaderValue,
) -> (Vec<u8>, Payload) {
    request.headers_mut().insert(HOST, host);
    let (parts, body) = request.into_parts();
    let target = parts.uri.path_and_query().map_or("/", |target| target.as_str());
    let head = RequestHead::new(&parts.method, target, &parts.headers);
    let needs_no_length = matches!(parts.method, Method::GET | Method::HEAD | Method::DELETE);
    match body.len() {
        0 if needs_no_length => (head.end(), body),
        length => (head.with_length(length), body),
    }
}
