//! The event streams of servers, as framed by the HTML standard. Memory is bounded by one event,
//! time is linear, and an event with a single data line inside one chunk is not copied. The data is
//! not checked: bytes that are not UTF-8 pass through, and the JSON layer rejects them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, Bytes};
use futures_util::FutureExt;
use lockgate_admission::budget::Budget;
use lockgate_admission::reader::{Buffer, Reader};
use lockgate_admission::spawn;
use lockgate_egress::Body;
use memchr::memchr2;

use crate::failure::{Result, UpstreamError};
use crate::incoming::{Inbox, next_or_dropped};

/// Longest delay accepted from a server before its stream is resumed.
const MAX_RETRY: Duration = Duration::from_secs(10);
/// Default pause before a stream is resumed.
const DEFAULT_RETRY: Duration = Duration::from_millis(200);
/// Time for a stream to end after its response, before its connection is dropped.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(250);

pub(crate) struct EventReader {
    body: Option<Body>,
    decoder: Decoder,
    reader: Reader,
    /// Notified of every sign of life of the server.
    inbox: Arc<dyn Inbox>,
    pub(crate) last_id: Option<String>,
    /// The pause before the stream is resumed, if specified by the server.
    pub(crate) retry: Option<Duration>,
}

impl EventReader {
    /// Creates a reader for events of at most `max` bytes.
    pub(crate) fn new(
        body: Body,
        max: usize,
        budget: &Arc<Budget>,
        inbox: &Arc<dyn Inbox>,
    ) -> Self {
        Self {
            body: Some(body),
            decoder: Decoder::new(max),
            reader: Reader::new(budget),
            inbox: Arc::clone(inbox),
            last_id: None,
            retry: None,
        }
    }

    pub(crate) fn pause(&self) -> Duration {
        self.retry.unwrap_or(DEFAULT_RETRY)
    }

    pub(crate) fn resume(&mut self, body: Body) {
        self.body = Some(body);
        self.decoder = Decoder::new(self.decoder.limit);
        self.reader.shrink_to(0);
    }

    /// Returns the next event, or `None` at the end of the stream. Its data is charged to the
    /// budget until the last reference is dropped.
    pub(crate) async fn next(&mut self) -> Result<Option<Event>> {
        loop {
            match self.decoder.next() {
                Ok(Some(event)) => return Ok(Some(self.count(event))),
                Ok(None) => {}
                Err(TooLarge) => {
                    let words = "the server sent an event larger than limits.event_bytes";
                    return Err(UpstreamError::too_large(words));
                }
            }
            let Some(body) = self.body.as_mut() else { return Ok(None) };
            let piece = next_or_dropped(body, &*self.inbox, &self.reader).await?;
            let Some(piece) = piece else {
                self.body = None;
                continue;
            };
            self.inbox.heard();
            let total = self.decoder.pending() + piece.len();
            self.reader.hold(total).await?;
            self.decoder.push(piece);
        }
    }

    fn count(&mut self, mut event: Event) -> Event {
        if let Some(id) = &event.id {
            self.last_id = Some(id.to_string());
        }
        if let Some(ms) = event.retry {
            self.retry = Some(Duration::from_millis(ms).min(MAX_RETRY));
        }
        event.data = self.reader.finish(event.data, self.decoder.pending());
        event
    }

    /// Drains the stream in the background, so that its connection can be reused.
    pub(crate) fn drain(mut self) {
        let Some(mut body) = self.body.take() else { return };
        let rest = async move { while let Ok(Some(_)) = body.data().await {} };
        let mut rest = Box::pin(tokio::time::timeout(DRAIN_TIMEOUT, rest));
        if rest.as_mut().now_or_never().is_none() {
            spawn(rest);
        }
    }
}

const BOM: &[u8] = b"\xef\xbb\xbf";

/// A block of a stream with data, an id or a reconnection time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Event {
    /// The event's type; `None` for `message`, the default, whether or not it was spelled out.
    pub(crate) event: Option<String>,
    /// The id set by this block. `Some("")` clears the earlier id.
    pub(crate) id: Option<String>,
    /// The data lines joined by LF. Empty for a block without data, which carries no message.
    pub(crate) data: Bytes,
    /// The reconnection time in milliseconds set by this block.
    pub(crate) retry: Option<u64>,
}

/// An error for an event, or a line of a stream, beyond the decoder's limit. The stream cannot be
/// read further.
#[derive(Debug, PartialEq, Eq)]
struct TooLarge;

/// The data so far: not copied while it is a single line, joined from the second line on.
#[derive(Default)]
enum Data {
    #[default]
    None,
    Line(Bytes),
    Joined(Buffer),
}

/// A decoder of chunks into events. An unfinished event at the end of a stream is dropped, as the
/// standard requires.
struct Decoder {
    /// Bounds the lines of an event on the wire, including field names, but not line endings and
    /// comments.
    limit: usize,
    input: VecDeque<Bytes>,
    /// The start of an unfinished line.
    partial: Buffer,
    /// The bytes of this event's finished lines.
    used: usize,
    /// Whether the last line ended in CR, so that a directly following LF belongs to that ending.
    after_cr: bool,
    at_start: bool,
    failed: bool,
    /// The event so far, without its data.
    event: Event,
    data: Data,
}

impl Decoder {
    fn new(limit: usize) -> Self {
        Self {
            limit,
            input: VecDeque::new(),
            partial: Buffer::new(limit),
            used: 0,
            after_cr: false,
            at_start: true,
            failed: false,
            event: Event::default(),
            data: Data::None,
        }
    }

    /// Returns the number of pushed bytes that belong to no event yet.
    fn pending(&self) -> usize {
        let input: usize = self.input.iter().map(Bytes::len).sum();
        input.saturating_add(self.partial.len()).saturating_add(self.used)
    }

    /// Adds a chunk. Call [`Self::next`] until it returns `None` before the next push, or chunks
    /// accumulate.
    fn push(&mut self, chunk: Bytes) {
        if !chunk.is_empty() && !self.failed {
            self.input.push_back(chunk);
        }
    }

    /// Returns the next whole event; `None` if more input is needed.
    ///
    /// # Errors
    /// [`TooLarge`], and then on every further call.
    fn next(&mut self) -> Result<Option<Event>, TooLarge> {
        if self.failed {
            return Err(TooLarge);
        }
        while let Some(line) = self.line()? {
            if line.is_empty() {
                if let Some(event) = self.dispatch() {
                    return Ok(Some(event));
                }
            } else {
                self.field(&line);
            }
        }
        Ok(None)
    }

    /// Returns the next whole line without its ending.
    fn line(&mut self) -> Result<Option<Bytes>, TooLarge> {
        while let Some(mut chunk) = self.input.pop_front() {
            if std::mem::take(&mut self.after_cr) && chunk.first() == Some(&b'\n') {
                chunk.advance(1);
            }
            let end = memchr2(b'\r', b'\n', &chunk);
            let length = end.unwrap_or(chunk.len());
            if self.used.saturating_add(self.partial.len()).saturating_add(length) > self.limit {
                *self = Self { failed: true, ..Self::new(self.limit) };
                return Err(TooLarge);
            }
            if end.is_none() {
                self.partial.extend(&chunk);
                continue;
            }
            let mut line = chunk.split_to(length);
            self.after_cr = chunk.first() == Some(&b'\r');
            chunk.advance(1);
            if !chunk.is_empty() {
                self.input.push_front(chunk);
            }
            if !self.partial.is_empty() {
                self.partial.extend(&line);
                line = self.partial.take();
            }
            if std::mem::take(&mut self.at_start) && line.starts_with(BOM) {
                line.advance(BOM.len());
            }
            return Ok(Some(line));
        }
        Ok(None)
    }

    fn field(&mut self, line: &Bytes) {
        let colon = memchr::memchr(b':', line).unwrap_or(line.len());
        if colon == 0 {
            return; // a comment is not kept, so it does not count
        }
        self.used = self.used.saturating_add(line.len());
        let skip = if line.get(colon + 1) == Some(&b' ') { 2 } else { 1 };
        let value = line.slice((colon + skip).min(line.len())..);
        match line.get(..colon).unwrap_or(&[]) {
            b"data" => self.data = std::mem::take(&mut self.data).with_line(value, self.limit),
            b"event" => self.event.event = Some(String::from_utf8_lossy(&value).into_owned()),
            b"id" if memchr::memchr(0, &value).is_none() => {
                self.event.id = Some(String::from_utf8_lossy(&value).into_owned());
            }
            b"retry" if !value.is_empty() && value.iter().all(u8::is_ascii_digit) => {
                let digits = String::from_utf8_lossy(&value);
                self.event.retry = Some(digits.parse().unwrap_or(u64::MAX));
            }
            _ => {}
        }
    }

    fn dispatch(&mut self) -> Option<Event> {
        self.used = 0;
        let mut event = std::mem::take(&mut self.event);
        event.event = event.event.filter(|name| !name.is_empty() && name != "message");
        event.data = match std::mem::take(&mut self.data) {
            Data::None if event.id.is_none() && event.retry.is_none() => return None,
            Data::None => Bytes::new(),
            Data::Line(line) => line,
            Data::Joined(mut lines) => lines.take(),
        };
        Some(event)
    }
}

impl Data {
    fn with_line(self, line: Bytes, max: usize) -> Self {
        let mut lines = match self {
            Self::None => return Self::Line(line),
            Self::Line(first) => {
                let mut lines = Buffer::new(max);
                lines.extend(&first);
                lines
            }
            Self::Joined(lines) => lines,
        };
        lines.extend(b"\n");
        lines.extend(&line);
        Self::Joined(lines)
    }
}

#[cfg(test)]
mod tests;
