//! Rewrites the strings of a JSON text. Unchanged parts are kept byte for byte. Builds no tree,
//! ignores structure, and requires text that a scanner has validated.

use crate::scan::{string_end, unescape};
use crate::write;

/// The role of a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StringRole<'a> {
    /// The name of a member.
    Key,
    /// A value, possibly in an array, with the name of the member it belongs to; empty outside of
    /// objects.
    Value(&'a str),
}

/// Rewrites the text with the replacements that `change` returns; `None` if nothing changes.
pub fn rewrite(
    text: &[u8],
    change: &mut dyn FnMut(StringRole<'_>, &str) -> Option<String>,
) -> Option<Vec<u8>> {
    let mut out: Option<Vec<u8>> = None;
    let mut key = String::new();
    let mut at = 0;
    let mut copied = 0;
    while let Some(start) = find_quote(text, at) {
        let Some(end) = string_end(text, start + 1) else { break };
        let decoded = unescape(text.get(start + 1..end).unwrap_or(&[]));
        let is_key = text.get(end + 1..).unwrap_or(&[]).trim_ascii_start().starts_with(b":");
        let changed = if is_key {
            change(StringRole::Key, &decoded)
        } else {
            change(StringRole::Value(&key), &decoded)
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

/// Returns the position of the first quote from `at` on.
fn find_quote(text: &[u8], at: usize) -> Option<usize> {
    Some(at + memchr::memchr(b'"', text.get(at..)?)?)
}

#[cfg(test)]
mod tests;
