//! Bounded output of pages, and of untrusted text and JSON on them. Truncated text is marked.

use std::{fmt, io};

use serde::Serialize;

/// Maximum size of one text or value on a page, in bytes.
pub(crate) const MOST_SHOWN: usize = 256 << 10;
/// The mark of truncated text.
pub(crate) const REST: &str = "\n… the rest is in the API's answer";

/// Returns a text, truncated to the limit of a page.
pub(crate) fn show_text(text: &str) -> String {
    let mut shown = BoundedText::new(MOST_SHOWN);
    // The only error is a full buffer, which the excerpt marks.
    let _ = fmt::Write::write_str(&mut shown, text);
    shown.into_excerpt()
}

/// Returns a value as indented JSON, truncated to the limit of a page.
pub(crate) fn show_json(value: &impl Serialize) -> String {
    let mut shown = BoundedText::new(MOST_SHOWN);
    // The only error is a full buffer: a value that was parsed from JSON can be serialized.
    let _ = serde_json::to_writer_pretty(&mut shown, value);
    shown.into_excerpt()
}

/// A buffer that rejects text beyond its limit.
pub(crate) struct BoundedText {
    bytes: Vec<u8>,
    most: usize,
    is_cut: bool,
}

impl BoundedText {
    pub(crate) fn new(most: usize) -> Self {
        Self { bytes: Vec::new(), most, is_cut: false }
    }

    /// Returns whether text was rejected.
    pub(crate) fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Returns the accepted text, up to the last complete character.
    pub(crate) fn into_text(self) -> String {
        String::from_utf8(self.bytes).unwrap_or_else(|error| {
            let whole = error.utf8_error().valid_up_to();
            let mut bytes = error.into_bytes();
            bytes.truncate(whole);
            String::from_utf8(bytes).unwrap_or_default()
        })
    }

    fn into_excerpt(self) -> String {
        let is_cut = self.is_cut;
        let mut text = self.into_text();
        if is_cut {
            text.push_str(REST);
        }
        text
    }

    fn take(&mut self, more: &[u8]) -> bool {
        let room = self.most - self.bytes.len();
        self.bytes.extend_from_slice(&more[..more.len().min(room)]);
        self.is_cut |= more.len() > room;
        !self.is_cut
    }
}

impl io::Write for BoundedText {
    fn write(&mut self, more: &[u8]) -> io::Result<usize> {
        if self.take(more) { Ok(more.len()) } else { Err(io::ErrorKind::FileTooLarge.into()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl fmt::Write for BoundedText {
    fn write_str(&mut self, more: &str) -> fmt::Result {
        if self.take(more.as_bytes()) { Ok(()) } else { Err(fmt::Error) }
    }
}

#[cfg(test)]
mod tests;
