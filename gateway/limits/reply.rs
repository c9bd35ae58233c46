//! A parser for RESP2 replies with bounded lengths.

use bytes::{Buf, Bytes, BytesMut};

/// Maximum length of a line; below, of a text. This client requests nothing longer.
const MAX_LINE: usize = 4096;
const MAX_TEXT: usize = 64 * 1024;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    Text(Bytes),
    Number(i64),
    /// The server's message, which begins with a kind such as `NOSCRIPT`.
    Error(String),
}

/// Input that is not a RESP2 reply, or not of a type that this client expects.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("the response is not a valid Redis reply")]
pub(crate) struct Malformed;

/// Removes the first reply from the input. Returns `None` if it is incomplete.
pub(crate) fn take_reply(input: &mut BytesMut) -> Result<Option<Reply>, Malformed> {
    let Some(end) = input.windows(2).take(MAX_LINE).position(|pair| pair == b"\r\n") else {
        return if input.len() > MAX_LINE { Err(Malformed) } else { Ok(None) };
    };
    let Some((kind, line)) = input[..end].split_first() else {
        return Err(Malformed);
    };
    let reply = match kind {
        b'+' => Reply::Text(Bytes::copy_from_slice(line)),
        b'-' => Reply::Error(String::from_utf8_lossy(line).into_owned()),
        b':' => Reply::Number(parse_number(line)?),
        b'$' => return take_text(input, end),
        _ => return Err(Malformed),
    };
    input.advance(end + 2);
    Ok(Some(reply))
}

/// Removes a text; the line up to `end` contains its length.
fn take_text(input: &mut BytesMut, end: usize) -> Result<Option<Reply>, Malformed> {
    let length = match usize::try_from(parse_number(&input[1..end])?) {
        Ok(length) if length <= MAX_TEXT => length,
        _ => return Err(Malformed),
    };
    let start = end + 2;
    match input.get(start + length..start + length + 2) {
        None => return Ok(None),
        Some(b"\r\n") => {}
        Some(_) => return Err(Malformed),
    }
    input.advance(start);
    let text = input.split_to(length).freeze();
    input.advance(2);
    Ok(Some(Reply::Text(text)))
}

fn parse_number(digits: &[u8]) -> Result<i64, Malformed> {
    let Ok(digits) = str::from_utf8(digits) else {
        return Err(Malformed);
    };
    digits.parse().map_err(|_| Malformed)
}

#[cfg(test)]
mod tests;
