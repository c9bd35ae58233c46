//! Response heads and the framing of bodies (RFC 9112, 6). Strict: a length or chunks but not both,
//! no folded header, no other transfer coding.

use std::io;
use std::mem::MaybeUninit;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Version};
use httparse::{Header, ParserConfig};

/// Longest line of a chunk's size, and longest trailer section, in bytes.
const MAX_CHUNK_LINE: usize = 16 << 10;
/// Most headers of a response.
pub(super) const MAX_HEADERS: usize = 100;

/// Room for the headers of a response.
pub(super) type Room<'a> = [MaybeUninit<Header<'a>>; MAX_HEADERS];

/// A response head.
#[derive(Debug)]
pub struct ResponseHead<'h, 'a> {
    pub status: StatusCode,
    pub version: Version,
    headers: &'h [Header<'a>],
}

/// The rest of a response's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    Ended,
    Length(u64),
    /// The rest of a chunk.
    Chunk(u64),
    /// The line break after a chunk.
    ChunkEnd,
    ChunkSize,
    /// The trailer section, of which so many bytes were read.
    Trailers(usize),
    UntilClose,
    Broken(&'static str),
}

/// Returns the length of the head at the start of `input`, if its end has arrived.
pub(super) fn find_end(input: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        at += memchr::memchr(b'\n', input.get(at..)?)? + 1;
        match input.get(at..)? {
            [b'\n', ..] => return Some(at + 1),
            [b'\r', b'\n', ..] => return Some(at + 2),
            _ => {}
        }
    }
}

impl<'h, 'a> ResponseHead<'h, 'a> {
    pub(super) fn parse(text: &'a [u8], room: &'h mut Room<'a>) -> Result<Self, Http1Error> {
        let mut response = httparse::Response::new(&mut []);
        let parser = ParserConfig::default();
        let parsed = parser.parse_response_with_uninit_headers(&mut response, text, room);
        let status = match parsed {
            Ok(httparse::Status::Complete(_)) => response.code.unwrap_or(0),
            Ok(httparse::Status::Partial) => return Err(Http1Error::Invalid("an incomplete head")),
            Err(httparse::Error::TooManyHeaders) => return Err(Http1Error::TooLarge),
            Err(_) => return Err(Http1Error::Invalid("the head is not HTTP/1.1")),
        };
        let Ok(status) = StatusCode::from_u16(status) else {
            return Err(Http1Error::Invalid("an unknown class of status"));
        };
        let version = if response.version == Some(1) { Version::HTTP_11 } else { Version::HTTP_10 };
        Ok(Self { status, version, headers: response.headers })
    }

    /// Returns the values of a header.
    pub fn values(&self, name: &'static str) -> impl Iterator<Item = &'a [u8]> {
        let named = self.headers.iter().filter(move |h| h.name.eq_ignore_ascii_case(name));
        named.map(|header| header.value)
    }

    /// Returns all headers.
    ///
    /// # Errors
    /// A header has an unusual name or value.
    pub fn header_map(&self) -> Result<HeaderMap, Http1Error> {
        let mut map = HeaderMap::with_capacity(self.headers.len());
        for header in self.headers {
            let name = HeaderName::from_bytes(header.name.as_bytes());
            let value = HeaderValue::from_bytes(header.value);
            match (name, value) {
                (Ok(name), Ok(value)) => map.append(name, value),
                _ => return Err(Http1Error::Invalid("a header cannot be read")),
            };
        }
        Ok(map)
    }

    /// Reports whether the connection stays open after the response.
    pub(super) fn is_persistent(&self) -> bool {
        let mut options = self.values("connection").flat_map(|v| v.split(|&b| b == b','));
        let closes = options.any(|option| option.trim_ascii().eq_ignore_ascii_case(b"close"));
        self.version == Version::HTTP_11 && !closes
    }

    /// Returns the framing of the body. `is_head` states that the request method is HEAD.
    pub(super) fn framing(&self, is_head: bool) -> Result<Framing, Http1Error> {
        let mut length = None;
        for value in self.values("content-length") {
            let value = Some(read_length(value)?);
            if length.is_some() && length != value {
                return Err(Http1Error::Invalid("different content lengths"));
            }
            length = value;
        }
        let mut codings = self.values("transfer-encoding");
        let coding = codings.next();
        if let Some(coding) = coding {
            let is_chunked = coding.eq_ignore_ascii_case(b"chunked") && codings.next().is_none();
            if !is_chunked || length.is_some() || self.version != Version::HTTP_11 {
                return Err(Http1Error::Invalid("an ambiguous transfer encoding"));
            }
        }
        let has_no_body = matches!(self.status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
        Ok(match (coding, length) {
            _ if has_no_body || is_head => Framing::Ended,
            (Some(_), _) => Framing::ChunkSize,
            (None, Some(0)) => Framing::Ended,
            (None, Some(length)) => Framing::Length(length),
            (None, None) => Framing::UntilClose,
        })
    }
}

/// Parses a length of at most 18 decimal digits.
fn read_length(value: &[u8]) -> Result<u64, Http1Error> {
    let mut length = 0;
    for &digit in value {
        if !digit.is_ascii_digit() || value.len() > 18 {
            return Err(Http1Error::Invalid("an invalid content length"));
        }
        length = length * 10 + u64::from(digit - b'0');
    }
    if value.is_empty() { Err(Http1Error::Invalid("an empty content length")) } else { Ok(length) }
}

impl Framing {
    /// Consumes framing that has arrived, up to the next data.
    pub(super) fn advance(&mut self, input: &mut BytesMut) -> Result<(), Http1Error> {
        loop {
            let max = match *self {
                Self::Chunk(0) => {
                    *self = Self::ChunkEnd;
                    continue;
                }
                Self::ChunkEnd => 2,
                Self::ChunkSize => MAX_CHUNK_LINE,
                Self::Trailers(read) => MAX_CHUNK_LINE - read,
                Self::Length(0) => {
                    *self = Self::Ended;
                    return Ok(());
                }
                Self::Broken(fault) => return Err(Http1Error::Invalid(fault)),
                Self::Ended | Self::Length(_) | Self::Chunk(_) | Self::UntilClose => return Ok(()),
            };
            let line = match take_line(input, max) {
                Ok(Some(line)) => line,
                Ok(None) => return Ok(()),
                Err(fault) => {
                    *self = Self::Broken(fault);
                    continue;
                }
            };
            *self = match *self {
                Self::ChunkEnd if line.is_empty() => Self::ChunkSize,
                Self::ChunkEnd => Self::Broken("a chunk of another length"),
                Self::Trailers(_) if line.is_empty() => Self::Ended,
                Self::Trailers(read) if is_field(&line) => Self::Trailers(read + line.len() + 2),
                Self::Trailers(_) => Self::Broken("an invalid trailer"),
                _ => match read_chunk_size(&line) {
                    Some(0) => Self::Trailers(0),
                    Some(size) => Self::Chunk(size),
                    None => Self::Broken("an invalid chunk size"),
                },
            };
        }
    }

    /// Takes data that has arrived.
    pub(super) fn take(&mut self, input: &mut BytesMut) -> Option<Bytes> {
        let left = match self {
            _ if input.is_empty() => return None,
            Self::Length(left) | Self::Chunk(left) => left,
            Self::UntilClose => return Some(input.split().freeze()),
            _ => return None,
        };
        let length = usize::try_from(*left).unwrap_or(usize::MAX).min(input.len());
        *left -= length as u64;
        Some(input.split_to(length).freeze())
    }

    /// Ends the body at the end of the connection, if that is its end.
    pub(super) fn close(&mut self) -> Result<(), Http1Error> {
        if *self != Self::UntilClose {
            return Err(Http1Error::Incomplete);
        }
        *self = Self::Ended;
        Ok(())
    }
}

/// Takes a line of at most `max` bytes, without its line break.
fn take_line(input: &mut BytesMut, max: usize) -> Result<Option<BytesMut>, &'static str> {
    let Some(end) = memchr::memchr(b'\n', input.get(..max).unwrap_or(input)) else {
        if input.len() >= max {
            return Err("a chunk without an end");
        }
        return Ok(None);
    };
    let mut line = input.split_to(end + 1);
    let text = line.strip_suffix(b"\r\n");
    if text.is_none_or(|text| text.contains(&b'\r')) {
        return Err("a chunk with a bare line break");
    }
    line.truncate(end - 1);
    Ok(Some(line))
}

/// Reports whether a line is a header field.
fn is_field(line: &[u8]) -> bool {
    let Some(end) = memchr::memchr(b':', line) else { return false };
    let (name, value) = line.split_at(end);
    HeaderName::from_bytes(name).is_ok() && HeaderValue::from_bytes(value.trim_ascii()).is_ok()
}

/// Parses the size of a chunk: at most 15 hexadecimal digits, then extensions, which are ignored.
fn read_chunk_size(line: &[u8]) -> Option<u64> {
    let end = line.iter().position(|b| !b.is_ascii_hexdigit()).unwrap_or(line.len());
    let (digits, rest) = line.split_at(end);
    let has_extension = matches!(rest.trim_ascii_start(), [] | [b';', ..]);
    let digits = std::str::from_utf8(digits).ok()?;
    if digits.len() > 15 || !has_extension { None } else { u64::from_str_radix(digits, 16).ok() }
}

/// Why an exchange failed.
#[derive(Debug, thiserror::Error)]
pub enum Http1Error {
    #[error("connection error: {0}")]
    Io(#[from] io::Error),
    #[error("connection closed before message completed")]
    Incomplete,
    #[error("invalid HTTP response: {0}")]
    Invalid(&'static str),
    #[error("the response head is too large")]
    TooLarge,
}
