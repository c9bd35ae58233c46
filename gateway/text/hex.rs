//! Hexadecimal digits.

use std::fmt::Write as _;

/// Encodes bytes as lowercase digits.
pub fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// Returns the digits of `N` random bytes, which cannot be guessed; `None` if the system has none.
pub fn random<const N: usize>() -> Option<String> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).ok()?;
    Some(encode(&bytes))
}

/// Decodes two digits, in either case.
pub fn byte(high: u8, low: u8) -> Option<u8> {
    let high = char::from(high).to_digit(16)?;
    let low = char::from(low).to_digit(16)?;
    u8::try_from(high * 16 + low).ok()
}

/// Decodes digits; `None` for other characters or an odd number of digits.
pub fn decode(digits: &[u8]) -> Option<Vec<u8>> {
    if !digits.len().is_multiple_of(2) {
        return None;
    }
    let mut bytes = Vec::with_capacity(digits.len() / 2);
    for pair in digits.chunks_exact(2) {
        bytes.push(byte(pair[0], pair[1])?);
    }
    Some(bytes)
}
