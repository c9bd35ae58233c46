//! Percent-encoding in URIs.

use crate::hex;

/// Encodes the bytes of a text except those that `keeps` selects, which must be ASCII.
pub fn encode(text: &str, keeps: impl Fn(u8) -> bool) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if keeps(byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

/// Returns the byte encoded at this position, if there is an escape.
pub fn byte(text: &[u8], at: usize) -> Option<u8> {
    match text.get(at..at + 3)? {
        [b'%', high, low] => hex::byte(*high, *low),
        _ => None,
    }
}

/// Decodes the escapes of a text once; `None` if there are none. A `%` without two digits is kept.
pub fn decode(text: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut rest = text;
    let mut found = false;
    while let Some(next) = rest.iter().position(|&byte| byte == b'%') {
        bytes.extend_from_slice(&rest[..next]);
        let escaped = byte(rest, next);
        bytes.push(escaped.unwrap_or(b'%'));
        found |= escaped.is_some();
        let length = if escaped.is_some() { 3 } else { 1 };
        rest = &rest[next + length..];
    }
    if !found {
        return None;
    }
    bytes.extend_from_slice(rest);
    Some(bytes)
}

/// Decodes the escapes of a text once; `None` if a `%` is not followed by two digits.
pub fn decode_strictly(text: &str) -> Option<Vec<u8>> {
    let text = text.as_bytes();
    let mut signs = (0..text.len()).filter(|&at| text[at] == b'%');
    let is_strict = signs.all(|at| byte(text, at).is_some());
    is_strict.then(|| decode(text).unwrap_or_else(|| text.to_vec()))
}

#[cfg(test)]
mod tests;
