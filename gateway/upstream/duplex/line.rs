//! Splits input into lines of bounded length without copying, and finds the addressee of a broken
//! or oversized line.

use bytes::{Buf, Bytes, BytesMut};
use lockgate_admission::reader::{Buffer, Reader};
use lockgate_protocol::key::Key;
use lockgate_protocol::scan::{Fault, Keys, Members, ScanError, Scanner, as_number};
use memchr::memchr;

/// Space reserved for each read.
const CHUNK_BYTES: usize = 16 << 10;
/// Free space below which the buffer grows.
const MIN_FREE_BYTES: usize = 4 << 10;
/// Size from which an incomplete line is moved to its own buffer.
const LONG_LINE: usize = 64 << 10;
/// Bytes kept of each end of a skipped line, to find the call that it answers.
const KEPT_END_BYTES: usize = 256;

/// Splits a stream into lines. Holds at most one line and one chunk.
pub(super) struct Lines {
    buffer: BytesMut,
    /// Bytes at the start of `buffer` without a line end.
    searched: usize,
    /// The start of a long line; its rest is in `buffer`.
    long: Buffer,
    max: usize,
    /// The ends of the line being skipped.
    skipped: Option<Ends>,
}

/// A line, or a skipped line.
#[derive(Debug)]
pub(super) enum Line {
    /// A line without its end, not empty.
    Text(Bytes),
    /// A line exceeded the limit; contains its start.
    TooLong(Ends),
    /// There was no memory for the rest of a line; contains its start.
    NoMemory(Ends),
    /// The end of a skipped line was reached.
    Skipped(Ends),
}

impl Line {
    /// Charges a line to `memory` until its last reference is dropped; `pending` is the size of the
    /// next line so far.
    pub(super) fn count(self, memory: &mut Reader, pending: usize) -> Self {
        match self {
            Self::Text(text) => Self::Text(memory.finish(text, pending)),
            other => other,
        }
    }
}

/// The start of a line and, once known, its end.
#[derive(Clone, Debug, Default)]
pub(super) struct Ends {
    head: Vec<u8>,
    tail: Vec<u8>,
}

impl Lines {
    pub(super) fn new(max: usize) -> Self {
        Self { buffer: BytesMut::new(), searched: 0, long: Buffer::new(max), max, skipped: None }
    }

    /// Changes the longest length, from the next line on.
    pub(super) fn resize(&mut self, max: usize) {
        if max != self.max && self.long.is_empty() && self.skipped.is_none() {
            self.max = max;
            self.long = Buffer::new(max);
        }
    }

    /// Returns the buffer to read into, which is never full.
    pub(super) fn space(&mut self) -> &mut BytesMut {
        if self.buffer.capacity() - self.buffer.len() < MIN_FREE_BYTES {
            self.buffer.reserve(if self.long.is_empty() { CHUNK_BYTES } else { LONG_LINE });
        }
        &mut self.buffer
    }

    pub(super) fn pending(&self) -> usize {
        self.long.len() + self.buffer.len()
    }

    /// Drops the incomplete line and skips the rest of it.
    pub(super) fn give_up(&mut self) -> Line {
        let ends = self.start_skipping(self.buffer.len());
        Line::NoMemory(ends)
    }

    /// Returns the next complete line. Must be called until it returns `None`.
    pub(super) fn next(&mut self) -> Option<Line> {
        loop {
            if self.skipped.is_some() {
                return self.skip_line();
            }
            let unsearched = self.buffer.get(self.searched..).unwrap_or(&[]);
            let found = memchr(b'\n', unsearched);
            let end = found.map_or_else(|| self.buffer.len(), |at| self.searched + at);
            if self.long.len() + end > self.max {
                return Some(Line::TooLong(self.start_skipping(end)));
            }
            if found.is_none() {
                self.searched = end;
                if end >= LONG_LINE || !self.long.is_empty() {
                    self.keep(end);
                }
                return None;
            }
            self.searched = 0;
            let mut line = if self.long.is_empty() {
                self.buffer.split_to(end).freeze()
            } else {
                self.keep(end);
                self.long.take()
            };
            self.buffer.advance(1);
            if line.last() == Some(&b'\r') {
                line.truncate(line.len() - 1);
            }
            if !line.trim_ascii().is_empty() {
                return Some(Line::Text(line));
            }
        }
    }

    /// Returns the input after the last line end.
    pub(super) fn rest(mut self) -> Bytes {
        if self.long.is_empty() {
            return self.buffer.freeze();
        }
        self.keep(self.buffer.len());
        self.long.take()
    }

    /// Moves the next part of a long line to its own buffer.
    fn keep(&mut self, end: usize) {
        self.long.extend(self.buffer.get(..end).unwrap_or_default());
        self.buffer.advance(end);
        self.searched = 0;
    }

    fn start_skipping(&mut self, end: usize) -> Ends {
        let part = self.buffer.get(..end).unwrap_or_default();
        let mut ends =
            if self.long.is_empty() { Ends::of(part) } else { Ends::of(self.long.as_slice()) };
        if !self.long.is_empty() {
            ends.more(part);
            drop(self.long.take());
        }
        let so_far = Ends { head: ends.head.clone(), tail: Vec::new() };
        if end == self.buffer.len() {
            // Also frees the memory of the line.
            self.buffer = BytesMut::new();
        } else {
            self.buffer.advance(end);
        }
        self.searched = 0;
        ends.tail.shrink_to_fit();
        self.skipped = Some(ends);
        so_far
    }

    fn skip_line(&mut self) -> Option<Line> {
        let ends = self.skipped.as_mut()?;
        match memchr(b'\n', &self.buffer) {
            Some(at) => {
                ends.more(self.buffer.get(..at).unwrap_or_default());
                self.buffer.advance(at + 1);
                Some(Line::Skipped(self.skipped.take()?))
            }
            None => {
                ends.more(&self.buffer);
                self.buffer.clear();
                None
            }
        }
    }
}

impl Ends {
    pub(super) fn of(line: &[u8]) -> Self {
        let mut ends =
            Self { head: line.get(..KEPT_END_BYTES).unwrap_or(line).to_vec(), tail: Vec::new() };
        ends.more(line);
        ends
    }

    fn more(&mut self, bytes: &[u8]) {
        self.tail.extend_from_slice(
            bytes.get(bytes.len().saturating_sub(KEPT_END_BYTES)..).unwrap_or_default(),
        );
        let surplus = self.tail.len().saturating_sub(KEPT_END_BYTES);
        self.tail.drain(..surplus);
    }

    /// Returns the addressee of the line, as far as its ends reveal it.
    pub(super) fn addressee(&self) -> Addressee {
        let mut seen = SeenLine::default();
        let head = match std::str::from_utf8(&self.head) {
            Ok(head) => head.as_bytes(),
            Err(error) => self.head.get(..error.valid_up_to()).unwrap_or(&[]),
        };
        if let Ok(mut scanner) = Scanner::new(head, 2) {
            // The text is cut off, so this always fails: only the members before the cut count.
            let _ = scanner.object(Keys::Distinct, &mut Members::new(), |scanner, member| {
                let enough = ScanError { what: Fault::End, at: 0 };
                match member.known {
                    Key::JsonRpc => scanner.value(),
                    Key::Id => {
                        let id = scanner.value()?;
                        seen.id = as_number(id.of(head));
                        Ok(id)
                    }
                    Key::Method | Key::Params => {
                        seen.is_request = true;
                        Err(enough)
                    }
                    Key::Result | Key::Error => {
                        seen.is_answer = true;
                        Err(enough)
                    }
                    _ => Err(enough),
                }
            });
        }
        match seen {
            SeenLine { is_request: true, .. } => Addressee::Nobody,
            SeenLine { id: Some(id), .. } => Addressee::Call(id),
            SeenLine { is_answer: true, .. } => match id_at_end(&self.tail) {
                Some(id) => Addressee::Call(id),
                None => Addressee::Unknown,
            },
            _ => Addressee::Unknown,
        }
    }

    /// Returns the start of the line for a log, unless it looks like a message: contents of
    /// messages must not be logged.
    pub(super) fn excerpt(&self) -> String {
        match self.head.trim_ascii_start().first() {
            Some(b'{' | b'[') | None => "(a message)".to_owned(),
            Some(_) => String::from_utf8_lossy(self.head.get(..120).unwrap_or(&self.head))
                .escape_debug()
                .collect(),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Addressee {
    /// A response, or its start, to the request with this id.
    Call(u64),
    /// Not a response.
    Nobody,
    Unknown,
}

#[derive(Default)]
struct SeenLine {
    id: Option<u64>,
    is_answer: bool,
    /// A request or notification of the server.
    is_request: bool,
}

/// Finds the id of a message that ends in `,"id":7}`, as some servers write them: only the
/// outermost object ends there.
fn id_at_end(tail: &[u8]) -> Option<u64> {
    let rest = tail.trim_ascii_end().strip_suffix(b"}")?.trim_ascii_end();
    let before = rest.iter().rposition(|byte| !byte.is_ascii_digit())?;
    let (rest, id) = rest.split_at(before + 1);
    let rest =
        rest.trim_ascii_end().strip_suffix(b":")?.trim_ascii_end().strip_suffix(b"\"id\"")?;
    rest.trim_ascii_end().strip_suffix(b",")?;
    as_number(id)
}
