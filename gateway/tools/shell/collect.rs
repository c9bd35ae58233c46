//! Collects a program's output. The first bytes are kept; the rest is counted and discarded, so
//! that the program never blocks.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::task::JoinHandle;

const CHUNK_BYTES: usize = 64 * 1024;

/// The kept bytes, and the total number of bytes.
#[derive(Debug, Default)]
pub(super) struct Output {
    pub(super) kept: Vec<u8>,
    pub(super) total: u64,
}

impl Output {
    /// Returns the text, and whether invalid UTF-8 was replaced.
    pub(super) fn text(&self) -> (String, bool) {
        let text = String::from_utf8_lossy(&self.kept);
        // A character cut off by the limit does not count as binary data.
        let cut = self.truncated() && text.trim_end_matches('\u{fffd}').len() + 3 >= text.len();
        let clean = if cut { text.trim_end_matches('\u{fffd}') } else { &*text };
        let lossy = matches!(text, std::borrow::Cow::Owned(_)) && clean.contains('\u{fffd}');
        (clean.to_owned(), lossy)
    }

    pub(super) fn truncated(&self) -> bool {
        self.total > self.kept.len() as u64
    }
}

/// Reads a stream to its end in the background.
pub(super) struct Reader {
    pub(super) output: Arc<Mutex<Output>>,
    task: JoinHandle<()>,
}

impl Reader {
    pub(super) fn start(
        stream: Option<impl AsyncRead + Unpin + Send + 'static>,
        cap: usize,
    ) -> Self {
        let output: Arc<Mutex<Output>> = Arc::default();
        let into = Arc::clone(&output);
        let task = tokio::spawn(async move {
            let Some(mut stream) = stream else { return };
            let mut chunk = vec![0; CHUNK_BYTES];
            let mut room = cap;
            while let Ok(read @ 1..) = stream.read(&mut chunk).await {
                let mut output = into.lock();
                let fits = fitting(&chunk[..read], &mut room);
                output.kept.extend_from_slice(&chunk[..fits]);
                output.total += read as u64;
            }
        });
        Self { output, task }
    }

    pub(super) async fn end(&mut self) {
        let _ = (&mut self.task).await;
    }
}

/// Returns how many of the bytes fit, and reduces the room. A control character counts as many
/// bytes as in JSON, so that the limit also bounds the size of the result.
fn fitting(bytes: &[u8], room: &mut usize) -> usize {
    for (at, byte) in bytes.iter().enumerate() {
        let escaped = byte.is_ascii_control() && !byte.is_ascii_whitespace();
        match room.checked_sub(if escaped { 6 } else { 1 }) {
            Some(left) => *room = left,
            None => {
                *room = 0;
                return at;
            }
        }
    }
    bytes.len()
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.task.abort();
    }
}
