//! Escapes of URIs: `%` and two hexadecimal digits.

use crate::hex;

/// The byte of the escape that stands here.
#[must_use]
pub fn byte(text: &[u8], at: usize) -> Option<u8> {
    match text.get(at..at + 3)? {
        [b'%', high, low] => hex::byte(*high, *low),
        _ => None,
    }
}

/// The text with its escapes decoded once; `None` when it has none. A `%` without two digits stands
/// for itself.
#[must_use]
pub fn decode(text: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut at = 0;
    let mut found = false;
    while let Some(next) =
        text.get(at..).and_then(|rest| rest.iter().position(|&byte| byte == b'%'))
    {
        bytes.extend_from_slice(&text[at..at + next]);
        at += next;
        let escaped = byte(text, at);
        bytes.push(escaped.unwrap_or(b'%'));
        found |= escaped.is_some();
        at += if escaped.is_some() { 3 } else { 1 };
    }
    if !found {
        return None;
    }
    bytes.extend_from_slice(text.get(at..).unwrap_or_default());
    Some(bytes)
}

/// The text with its escapes decoded once; `None` where a `%` has not two digits.
#[must_use]
pub fn decode_strictly(text: &str) -> Option<Vec<u8>> {
    let whole = text.match_indices('%').all(|(at, _)| byte(text.as_bytes(), at).is_some());
    whole.then(|| decode(text.as_bytes()).unwrap_or_else(|| text.as_bytes().to_vec()))
}

#[cfg(test)]
mod tests;
