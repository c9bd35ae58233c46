//! Hexadecimal digits.

/// Encodes bytes as lowercase digits.
pub fn encode(bytes: &[u8]) -> String {
    let mut digits = vec![0; bytes.len() * 2];
    write(bytes, &mut digits);
    String::from_utf8(digits).unwrap_or_default()
}

/// Writes bytes as lowercase digits, two for each, without the cost of a formatter.
pub fn write(bytes: &[u8], digits: &mut [u8]) {
    const DIGITS: [u8; 16] = *b"0123456789abcdef";
    for (pair, byte) in digits.chunks_exact_mut(2).zip(bytes) {
        pair.copy_from_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
    }
}

/// Returns `N` random bytes, which cannot be guessed; `None` if the system has none.
pub fn random_bytes<const N: usize>() -> Option<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).ok()?;
    Some(bytes)
}

/// Returns the digits of `N` random bytes.
pub fn random<const N: usize>() -> Option<String> {
    random_bytes::<N>().map(|bytes| encode(&bytes))
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
