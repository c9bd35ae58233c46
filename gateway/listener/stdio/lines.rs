//! Bounded lines in both directions. A line that is too long is skipped as a whole, and the next
//! line is read normally.

use std::io;

use bytes::{Bytes, BytesMut};
use lockgate_proxy::transport::Text;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;

use crate::session_client::QueuedMessage;

/// Bytes up to which queued texts are combined into one write.
const MAX_GATHERED: usize = 64 * 1024;
const CHUNK_BYTES: usize = 8 * 1024;

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line {
    Text(Bytes),
    TooLong,
}

/// A reader of lines. Its methods are cancel safe.
pub(crate) struct Lines<I> {
    input: I,
    limit: usize,
    buffer: BytesMut,
    /// Bytes of `buffer` without a line break.
    searched: usize,
    skipping: bool,
    ended: bool,
}

impl<I: AsyncRead + Unpin> Lines<I> {
    pub(crate) fn new(input: I, limit: usize) -> Self {
        Self { input, limit, buffer: BytesMut::new(), searched: 0, skipping: false, ended: false }
    }

    /// Returns the next line that is not blank, or `None` at the end of the input.
    pub(crate) async fn next(&mut self) -> io::Result<Option<Line>> {
        loop {
            if let Some(line) = self.take() {
                return Ok(Some(line));
            }
            if self.ended {
                return Ok(None);
            }
            self.buffer.reserve(CHUNK_BYTES);
            if self.input.read_buf(&mut self.buffer).await? == 0 {
                self.ended = true;
            }
        }
    }

    fn take(&mut self) -> Option<Line> {
        loop {
            let fresh = self.buffer.get(self.searched..).unwrap_or(&[]);
            let end = match memchr::memchr(b'\n', fresh) {
                Some(at) => self.searched + at,
                None if self.ended && !self.buffer.is_empty() => self.buffer.len(),
                None => return self.unfinished(),
            };
            let mut line = self.buffer.split_to(end);
            if !self.buffer.is_empty() {
                drop(self.buffer.split_to(1));
            }
            self.searched = 0;
            if std::mem::take(&mut self.skipping) {
                continue;
            }
            if line.last() == Some(&b'\r') {
                line.truncate(line.len() - 1);
            }
            if line.len() > self.limit {
                return Some(Line::TooLong);
            }
            if !line.trim_ascii().is_empty() {
                return Some(Line::Text(line.freeze()));
            }
        }
    }

    /// Keeps a partial line while it may still fit.
    fn unfinished(&mut self) -> Option<Line> {
        self.searched = self.buffer.len();
        // Plus a byte that may be the CR of a line that just fits.
        if !self.skipping && self.buffer.len() <= self.limit.saturating_add(1) {
            return None;
        }
        self.buffer.clear();
        self.searched = 0;
        let was_skipping = std::mem::replace(&mut self.skipping, true);
        if was_skipping { None } else { Some(Line::TooLong) }
    }
}

/// Writes each text as one line, until the queue closes or a write fails.
pub(crate) async fn write(
    mut out: impl AsyncWrite + Unpin,
    mut texts: mpsc::Receiver<QueuedMessage>,
) -> io::Result<()> {
    let mut buffer = Vec::new();
    // Held until the write completes, so that the memory stays charged.
    let mut gathered = Vec::new();
    while let Some(waiting) = texts.recv().await {
        append(&mut buffer, &waiting.text);
        gathered.push(waiting);
        while buffer.len() < MAX_GATHERED
            && let Ok(waiting) = texts.try_recv()
        {
            append(&mut buffer, &waiting.text);
            gathered.push(waiting);
        }
        out.write_all(&buffer).await?;
        out.flush().await?;
        gathered.clear();
        buffer.clear();
        buffer.shrink_to(MAX_GATHERED);
    }
    Ok(())
}

fn append(buffer: &mut Vec<u8>, text: &Text) {
    let start = buffer.len();
    for chunk in text.chunks() {
        buffer.extend_from_slice(chunk);
    }
    // JSON contains raw line breaks only between tokens, where a space is equivalent.
    let fresh = buffer.get_mut(start..).unwrap_or(&mut []);
    if memchr::memchr2(b'\n', b'\r', fresh).is_some() {
        for byte in fresh {
            if matches!(byte, b'\n' | b'\r') {
                *byte = b' ';
            }
        }
    }
    buffer.push(b'\n');
}

#[cfg(test)]
mod tests;
