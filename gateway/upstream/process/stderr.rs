//! The standard error of a child: logged, and its last lines kept for error reports. The text is
//! untrusted: bounded, escaped, and never interpreted.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use memchr::memchr;
use parking_lot::Mutex;
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};

/// Bytes kept per line.
const MAX_LINE: usize = 8 << 10;
/// Number of lines kept.
const MAX_KEPT_LINES: usize = 20;
/// Lines per second logged at level info; the rest are logged at level debug.
const MAX_INFO_LINES_PER_SECOND: u32 = 20;

#[derive(Default)]
pub(super) struct Tail(Mutex<VecDeque<String>>);

impl Tail {
    pub(super) fn lines(&self) -> Vec<String> {
        self.0.lock().iter().cloned().collect()
    }

    fn push(&self, line: String) {
        let mut lines = self.0.lock();
        if lines.len() >= MAX_KEPT_LINES {
            lines.pop_front();
        }
        lines.push_back(line);
    }
}

pub(super) async fn follow(stderr: impl AsyncRead + Unpin, slug: String, tail: Arc<Tail>) {
    let mut reader = BufReader::new(stderr);
    let mut line = Vec::new();
    let mut length = 0;
    let mut loudness = Loudness::default();
    loop {
        let (taken, ended) = match reader.fill_buf().await {
            Ok([]) | Err(_) => break,
            Ok(bytes) => {
                let end = memchr(b'\n', bytes);
                let part = bytes.get(..end.unwrap_or(bytes.len())).unwrap_or(&[]);
                length += part.len();
                let room = MAX_LINE - line.len();
                line.extend_from_slice(part.get(..room).unwrap_or(part));
                (part.len() + usize::from(end.is_some()), end.is_some())
            }
        };
        reader.consume(taken);
        if ended {
            keep(&line, length, &slug, &tail, &mut loudness);
            line.clear();
            length = 0;
        }
    }
    keep(&line, length, &slug, &tail, &mut loudness);
}

fn keep(line: &[u8], length: usize, slug: &str, tail: &Tail, loudness: &mut Loudness) {
    let line = line.trim_ascii_end();
    if line.is_empty() {
        return;
    }
    let mut shown = printable(line);
    if length > MAX_LINE {
        let _ = write!(shown, " … ({length} bytes)");
    }
    if loudness.is_loud() {
        tracing::info!(target: "upstream.stderr", server = slug, "{shown}");
    } else {
        tracing::debug!(target: "upstream.stderr", server = slug, "{shown}");
    }
    tail.push(shown);
}

/// Escapes control characters and marks of the reading direction, so that the text cannot affect
/// the display.
fn printable(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\t' => shown.push(c),
            '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                shown.extend(c.escape_unicode());
            }
            c if c.is_control() => shown.extend(c.escape_unicode()),
            c => shown.push(c),
        }
    }
    shown
}

/// The number of lines logged in the current second.
#[derive(Default)]
struct Loudness {
    since: Option<Instant>,
    lines: u32,
}

impl Loudness {
    fn is_loud(&mut self) -> bool {
        if self.since.is_none_or(|since| since.elapsed() > Duration::from_secs(1)) {
            *self = Self { since: Some(Instant::now()), lines: 0 };
        }
        self.lines += 1;
        self.lines <= MAX_INFO_LINES_PER_SECOND
    }
}
