//! Lines of bounded length, both ways. A line that is too long is skipped as a whole; the next one
//! is read as if nothing had happened.

use std::io;

use bytes::{Bytes, BytesMut};
use lockgate_proxy::transport::Text;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;

use crate::session_client::QueuedMessage;

/// Texts up to this size are gathered into one write.
const GATHER: usize = 64 * 1024;
const CHUNK: usize = 8 * 1024;

/// What came in.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line {
    Text(Bytes),
    TooLong,
}

/// Reads lines; dropping a read in between loses nothing.
pub(crate) struct Lines<I> {
    input: I,
    limit: usize,
    buffer: BytesMut,
    /// Bytes of `buffer` that hold no line break.
    searched: usize,
    skipping: bool,
    ended: bool,
}

impl<I: AsyncRead + Unpin> Lines<I> {
    pub(crate) fn new(input: I, limit: usize) -> Self {
        Self { input, limit, buffer: BytesMut::new(), searched: 0, skipping: false, ended: false }
    }

    /// The next line that is not blank; `None` at the end of the input.
    pub(crate) async fn next(&mut self) -> io::Result<Option<Line>> {
        loop {
            if let Some(line) = self.take() {
                return Ok(Some(line));
            }
            if self.ended {
                return Ok(None);
            }
            self.buffer.reserve(CHUNK);
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

    /// Half a line: kept while it may still fit.
    fn unfinished(&mut self) -> Option<Line> {
        self.searched = self.buffer.len();
        // One byte more, because it may be the CR of a line that just fits.
        if !self.skipping && self.buffer.len() <= self.limit.saturating_add(1) {
            return None;
        }
        self.buffer.clear();
        self.searched = 0;
        let was_skipping = std::mem::replace(&mut self.skipping, true);
        if was_skipping { None } else { Some(Line::TooLong) }
    }
}

/// Writes each text as one line, until nobody sends any more or the other side is gone.
pub(crate) async fn write(
    mut out: impl AsyncWrite + Unpin,
    mut texts: mpsc::Receiver<QueuedMessage>,
) -> io::Result<()> {
    let mut buffer = Vec::new();
    // They count until they are written.
    let mut gathered = Vec::new();
    while let Some(waiting) = texts.recv().await {
        append(&mut buffer, &waiting.text);
        gathered.push(waiting);
        while buffer.len() < GATHER
            && let Ok(waiting) = texts.try_recv()
        {
            append(&mut buffer, &waiting.text);
            gathered.push(waiting);
        }
        out.write_all(&buffer).await?;
        out.flush().await?;
        gathered.clear();
        buffer.clear();
        buffer.shrink_to(GATHER);
    }
    Ok(())
}

fn append(buffer: &mut Vec<u8>, text: &Text) {
    let start = buffer.len();
    match text {
        Text::Whole(bytes) => buffer.extend_from_slice(bytes),
        Text::Spliced(chunks) | Text::Shared(chunks) => {
            for chunk in chunks {
                buffer.extend_from_slice(chunk);
            }
        }
    }
    // JSON has raw line breaks only between its tokens, where a space says the same.
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
