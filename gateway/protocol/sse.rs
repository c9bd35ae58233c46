//! Server-sent events as framed by the HTML standard: an incremental decoder, and writers for the
//! gateway's own streams.
//!
//! Memory is bounded by one event, time is linear, and an event with a single data line inside one
//! chunk is not copied. The data is not checked: bytes that are not UTF-8 pass through, and the
//! JSON layer rejects them.

use std::collections::VecDeque;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use memchr::memchr2;

const BOM: &[u8] = b"\xef\xbb\xbf";

/// A block of a stream with data, an id or a reconnection time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// The event's type; `None` for `message`, the default, whether or not it was spelled out.
    pub event: Option<String>,
    /// The id set by this block. `Some("")` clears the earlier id.
    pub id: Option<String>,
    /// The data lines joined by LF. Empty for a block without data, which carries no message.
    pub data: Bytes,
    /// The reconnection time in milliseconds set by this block.
    pub retry: Option<u64>,
}

/// An error for an event, or a line of a stream, beyond the decoder's limit. The stream cannot be
/// read further.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("event longer than {limit} bytes")]
pub struct TooLarge {
    pub limit: usize,
}

/// A buffer in which the pieces of an event are assembled.
pub trait Assembly: Sized {
    /// Creates an empty buffer of the same kind.
    fn fresh(&self) -> Self;
    fn len(&self) -> usize;
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    fn extend(&mut self, bytes: &[u8]);
    /// Takes the assembled bytes and leaves the buffer empty.
    fn take(&mut self) -> Bytes;
}

impl Assembly for BytesMut {
    fn fresh(&self) -> Self {
        Self::new()
    }

    fn len(&self) -> usize {
        Self::len(self)
    }

    fn extend(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }

    fn take(&mut self) -> Bytes {
        self.split().freeze()
    }
}

/// The data so far: not copied while it is a single line, joined from the second line on.
#[derive(Debug)]
enum Data<A> {
    None,
    Line(Bytes),
    Joined(A),
}

/// A decoder of chunks into events. An unfinished event at the end of a stream is dropped, as the
/// standard requires.
#[derive(Debug)]
pub struct Decoder<A = BytesMut> {
    limit: usize,
    input: VecDeque<Bytes>,
    /// The start of an unfinished line.
    partial: A,
    /// The bytes of this event's finished lines.
    used: usize,
    /// Whether the last line ended in CR, so that a directly following LF belongs to that ending.
    after_cr: bool,
    at_start: bool,
    failed: bool,
    event: Option<String>,
    id: Option<String>,
    retry: Option<u64>,
    data: Data<A>,
}

impl Decoder {
    /// Creates a decoder. `max_event_bytes` bounds the lines of an event on the wire, including
    /// field names, but not line endings and comments.
    pub fn new(max_event_bytes: usize) -> Self {
        Self::within(max_event_bytes, BytesMut::new())
    }
}

impl<A: Assembly> Decoder<A> {
    /// Creates a decoder that assembles events in `assembly`.
    pub fn within(max_event_bytes: usize, assembly: A) -> Self {
        Self {
            limit: max_event_bytes,
            input: VecDeque::new(),
            partial: assembly,
            used: 0,
            after_cr: false,
            at_start: true,
            failed: false,
            event: None,
            id: None,
            retry: None,
            data: Data::None,
        }
    }

    /// Returns the number of pushed bytes that belong to no event yet.
    pub fn pending(&self) -> usize {
        let input: usize = self.input.iter().map(Bytes::len).sum();
        input.saturating_add(self.partial.len()).saturating_add(self.used)
    }

    /// Adds a chunk. Call [`Self::next`] until it returns `None` before the next push, or chunks
    /// accumulate.
    pub fn push(&mut self, chunk: Bytes) {
        if !chunk.is_empty() && !self.failed {
            self.input.push_back(chunk);
        }
    }

    /// Returns the next whole event; `None` if more input is needed.
    ///
    /// # Errors
    /// [`TooLarge`], and then on every further call.
    #[allow(clippy::should_implement_trait)] // not an iterator: `None` is not the end
    pub fn next(&mut self) -> Result<Option<Event>, TooLarge> {
        if self.failed {
            return Err(TooLarge { limit: self.limit });
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
                return Err(self.fail());
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

    fn fail(&mut self) -> TooLarge {
        let limit = self.limit;
        *self = Self { failed: true, ..Self::within(limit, self.partial.fresh()) };
        TooLarge { limit }
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
            b"data" => {
                let before = std::mem::replace(&mut self.data, Data::None);
                self.data = before.with_line(value, &self.partial);
            }
            b"event" => self.event = Some(String::from_utf8_lossy(&value).into_owned()),
            b"id" if memchr::memchr(0, &value).is_none() => {
                self.id = Some(String::from_utf8_lossy(&value).into_owned());
            }
            b"retry" => {
                if let Some(ms) = read_digits(&value) {
                    self.retry = Some(ms);
                }
            }
            _ => {}
        }
    }

    fn dispatch(&mut self) -> Option<Event> {
        self.used = 0;
        let event = match self.event.take() {
            Some(name) if name.is_empty() || name == "message" => None,
            name => name,
        };
        let id = self.id.take();
        let retry = self.retry.take();
        let data = match std::mem::replace(&mut self.data, Data::None) {
            Data::None if id.is_none() && retry.is_none() => return None,
            Data::None => Bytes::new(),
            Data::Line(line) => line,
            Data::Joined(mut lines) => lines.take(),
        };
        Some(Event { event, id, data, retry })
    }
}

impl<A: Assembly> Data<A> {
    fn with_line(self, line: Bytes, assembly: &A) -> Self {
        let mut lines = match self {
            Self::None => return Self::Line(line),
            Self::Line(first) => {
                let mut lines = assembly.fresh();
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

/// Parses decimal digits. Saturates if the number is too large.
fn read_digits(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    let mut number = 0_u64;
    for byte in text {
        if !byte.is_ascii_digit() {
            return None;
        }
        number = number.saturating_mul(10).saturating_add(u64::from(byte - b'0'));
    }
    Some(number)
}

/// Writes a message. Data with line breaks becomes several data lines; the reader receives each
/// break as LF. An id with CR, LF or NUL cannot be sent and is left out.
pub fn encode(out: &mut impl BufMut, id: Option<&str>, data: &[u8]) {
    write_id(out, id);
    write_data(out, data);
}

/// Writes a comment as a keep-alive, which every reader skips.
pub fn comment(out: &mut impl BufMut) {
    out.put_slice(b":\n\n");
}

/// Writes an event with an id and empty data, the first of a stream that may be polled
/// (2025-11-25). `ms` is the time to wait before reconnecting.
pub fn retry(out: &mut impl BufMut, ms: Option<u64>, id: Option<&str>) {
    if let Some(ms) = ms {
        out.put_slice(b"retry: ");
        out.put_slice(ms.to_string().as_bytes());
        out.put_u8(b'\n');
    }
    encode(out, id, b"");
}

/// Writes the first event of an HTTP+SSE stream (2024-11-05): the address for POST requests.
pub fn endpoint(out: &mut impl BufMut, uri: &str) {
    out.put_slice(b"event: endpoint\n");
    write_data(out, uri.as_bytes());
}

fn write_id(out: &mut impl BufMut, id: Option<&str>) {
    let Some(id) = id else { return };
    if memchr::memchr3(b'\r', b'\n', 0, id.as_bytes()).is_some() {
        return;
    }
    out.put_slice(b"id: ");
    out.put_slice(id.as_bytes());
    out.put_u8(b'\n');
}

/// Splits off the first line, before its ending; `None` if no line ends.
fn split_line(data: &[u8]) -> Option<(&[u8], &[u8])> {
    data.split_at_checked(memchr2(b'\r', b'\n', data)?)
}

fn write_data(out: &mut impl BufMut, mut data: &[u8]) {
    loop {
        out.put_slice(b"data: ");
        let Some((line, ending)) = split_line(data) else {
            out.put_slice(data);
            out.put_slice(b"\n\n");
            return;
        };
        out.put_slice(line);
        out.put_u8(b'\n');
        let skip = if ending.starts_with(b"\r\n") { 2 } else { 1 };
        data = ending.get(skip..).unwrap_or(&[]);
    }
}

#[cfg(test)]
mod tests;
