//! Every string of a JSON text, decoded, with leave to write another one in its place. What is not
//! changed stays byte for byte. It builds no tree, follows no structure and expects text that a
//! scanner has validated.

use memchr::memchr2;

use crate::scan::unescape;
use crate::write;

/// What a string is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place<'a> {
    /// The name of a member.
    Key,
    /// A value, or one in an array, and the name of the member that it belongs to; empty outside of
    /// objects.
    Value(&'a str),
}

/// Writes the text anew with what `change` gives for its strings; `None` when it changes nothing.
#[must_use]
pub fn rewrite(
    text: &[u8],
    change: &mut dyn FnMut(Place<'_>, &str) -> Option<String>,
) -> Option<Vec<u8>> {
    let mut out: Option<Vec<u8>> = None;
    let mut key = String::new();
    let mut at = 0;
    let mut copied = 0;
    while let Some(start) = find_quote(text, at) {
        let Some(end) = end_of(text, start + 1) else { break };
        let decoded = unescape(text.get(start + 1..end).unwrap_or(&[]));
        let is_key = text.get(end + 1..).unwrap_or(&[]).trim_ascii_start().starts_with(b":");
        let changed = if is_key {
            change(Place::Key, &decoded)
        } else {
            change(Place::Value(&key), &decoded)
        };
        if let Some(new) = changed {
            let out = out.get_or_insert_with(|| Vec::with_capacity(text.len()));
            out.extend_from_slice(text.get(copied..start).unwrap_or(&[]));
            write::string(out, &new);
            copied = end + 1;
        }
        if is_key {
            decoded.as_ref().clone_into(&mut key);
        }
        at = end + 1;
    }
    let mut out = out?;
    out.extend_from_slice(text.get(copied..).unwrap_or(&[]));
    Some(out)
}

/// Where the first quote from `at` on stands.
fn find_quote(text: &[u8], at: usize) -> Option<usize> {
    Some(at + memchr::memchr(b'"', text.get(at..)?)?)
}

/// Where the quote stands that ends the string which begins at `at`.
fn end_of(text: &[u8], mut at: usize) -> Option<usize> {
    loop {
        at += memchr2(b'"', b'\\', text.get(at..)?)?;
        match text.get(at)? {
            b'"' => return Some(at),
            _ => at += 2,
        }
    }
}

#[cfg(test)]
mod tests;
