//! Counts the `Content-Length` lines that a client sends over HTTP/1, because hyper's parser drops
//! the header if `Transfer-Encoding` is present. The bytes pass unchanged.

use std::sync::atomic::{AtomicUsize, Ordering};

const LINE: &[u8] = b"\ncontent-length:";

/// The number of lines read that are not yet assigned to a request.
#[derive(Default)]
pub(crate) struct ContentLengthCount(AtomicUsize);

impl ContentLengthCount {
    pub(crate) fn add(&self, lines: usize) {
        if lines > 0 {
            self.0.fetch_add(lines, Ordering::Relaxed);
        }
    }

    /// Subtracts the lines of one request.
    pub(crate) fn forget(&self, lines: usize) {
        // A single task reads and answers on an HTTP/1 connection, so load and store cannot race.
        let left = self.0.load(Ordering::Relaxed).saturating_sub(lines);
        self.0.store(left, Ordering::Relaxed);
    }

    pub(crate) fn any(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }
}

/// The number of bytes of [`LINE`] that the end of the last read matches.
#[derive(Default)]
pub(crate) struct ContentLengthScanner(usize);

impl ContentLengthScanner {
    /// Returns the number of lines that these bytes complete.
    pub(crate) fn count(&mut self, mut bytes: &[u8]) -> usize {
        let mut found = 0;
        loop {
            if self.0 == 0 {
                let Some(at) = memchr::memchr(b'\n', bytes) else { return found };
                bytes = bytes.get(at + 1..).unwrap_or(&[]);
                self.0 = 1;
            }
            while let Some(wanted) = LINE.get(self.0) {
                let Some((byte, rest)) = bytes.split_first() else { return found };
                if !byte.eq_ignore_ascii_case(wanted) {
                    break;
                }
                (bytes, self.0) = (rest, self.0 + 1);
            }
            found += usize::from(self.0 == LINE.len());
            self.0 = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_found_wherever_a_read_ends() {
        let text = b"POST / HTTP/1.1\r\nContent-Length: 5\r\nX: \
                content-length:\r\n\nCONTENT-LENGTH:7\n\ncontent-lengt\n";
        for cut in 0..text.len() {
            let (one, two) = text.split_at(cut);
            let mut scan = ContentLengthScanner::default();
            assert_eq!(scan.count(one) + scan.count(two), 2, "{cut}");
        }
        let mut scan = ContentLengthScanner::default();
        assert_eq!(text.iter().map(|byte| scan.count(&[*byte])).sum::<usize>(), 2);
    }
}
