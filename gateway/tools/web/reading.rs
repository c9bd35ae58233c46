//! Response bodies: decompressed while they arrive, limited by their decompressed size, and decoded
//! by the charset that the server or the page declares.

use std::borrow::Cow;
use std::io::{self, Write};

use encoding_rs::{Encoding, UTF_8};
use flate2::write::{MultiGzDecoder, ZlibDecoder};
use http::{HeaderMap, header};

/// Compressed bytes that may arrive without producing output.
const MAX_IDLE_INPUT: usize = 64 << 10;

/// A body that is being received.
pub(super) struct Intake {
    decoder: Decoder,
    /// Bytes before decompression.
    received: usize,
    max: usize,
}

enum Decoder {
    Plain(Capped),
    Gzip(MultiGzDecoder<Capped>),
    Deflate(ZlibDecoder<Capped>),
}

/// A buffer with a size limit.
struct Capped {
    bytes: Vec<u8>,
    max: usize,
    over: bool,
}

impl Write for Capped {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        let room = self.max - self.bytes.len();
        if room < data.len() {
            self.bytes.extend_from_slice(&data[..room]);
            self.over = true;
            return Err(io::Error::other("full"));
        }
        self.bytes.extend_from_slice(data);
        Ok(data.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Intake {
    /// Creates the decoder for a response with these headers. Rejects unexpected encodings.
    pub(super) fn new(headers: &HeaderMap, max: usize) -> Result<Self, String> {
        let capped = Capped { bytes: Vec::new(), max, over: false };
        let encodings: Vec<_> = headers.get_all(header::CONTENT_ENCODING).iter().collect();
        let encoding = match encodings.as_slice() {
            [] => String::new(),
            [one] => one.to_str().unwrap_or("?").trim().to_ascii_lowercase(),
            _ => "?".into(),
        };
        let decoder = match encoding.as_str() {
            "" | "identity" => Decoder::Plain(capped),
            "gzip" | "x-gzip" => Decoder::Gzip(MultiGzDecoder::new(capped)),
            "deflate" => Decoder::Deflate(ZlibDecoder::new(capped)),
            _ => return Err("the body has a content encoding that was not requested".into()),
        };
        Ok(Self { decoder, received: 0, max })
    }

    /// Decodes a chunk. Returns false once the limit is reached.
    pub(super) fn take(&mut self, data: &[u8]) -> Result<bool, String> {
        self.received = self.received.saturating_add(data.len());
        if self.received > self.max.saturating_add(MAX_IDLE_INPUT)
            && !matches!(self.decoder, Decoder::Plain(_))
        {
            self.capped().over = true;
            return Ok(false);
        }
        let result = match &mut self.decoder {
            Decoder::Plain(plain) => plain.write_all(data),
            Decoder::Gzip(gzip) => gzip.write_all(data),
            Decoder::Deflate(deflate) => deflate.write_all(data),
        };
        match result {
            Ok(()) => Ok(true),
            Err(_) if self.capped().over => Ok(false),
            Err(_) => Err("the body does not match its content encoding".into()),
        }
    }

    /// Returns the decoded body, and whether it was cut off.
    pub(super) fn end(mut self) -> Result<(Vec<u8>, bool), String> {
        if !self.capped().over {
            let ended = match &mut self.decoder {
                Decoder::Plain(_) => Ok(()),
                Decoder::Gzip(gzip) if self.received > 0 => gzip.try_finish(),
                Decoder::Deflate(deflate) if self.received > 0 => deflate.try_finish(),
                _ => Ok(()),
            };
            if ended.is_err() && !self.capped().over {
                return Err("the compressed body breaks off".into());
            }
        }
        let capped = self.capped();
        Ok((std::mem::take(&mut capped.bytes), capped.over))
    }

    fn capped(&mut self) -> &mut Capped {
        match &mut self.decoder {
            Decoder::Plain(capped) => capped,
            Decoder::Gzip(gzip) => gzip.get_mut(),
            Decoder::Deflate(deflate) => deflate.get_mut(),
        }
    }
}

/// Returns the content type without parameters, in lower case; empty if absent.
pub(super) fn kind(headers: &HeaderMap) -> String {
    let essence = content_type(headers).split(';').next().unwrap_or("");
    essence.trim().to_ascii_lowercase()
}

/// Returns the content type as sent; empty if absent.
fn content_type(headers: &HeaderMap) -> &str {
    headers.get(header::CONTENT_TYPE).map_or("", |value| value.to_str().unwrap_or(""))
}

/// Returns whether a body is text, by its content type, or its bytes without one.
pub(super) fn is_text(kind: &str, body: &[u8]) -> bool {
    const TEXT: [&str; 12] = [
        "application/json",
        "application/xml",
        "application/javascript",
        "application/ecmascript",
        "application/x-www-form-urlencoded",
        "application/graphql",
        "application/yaml",
        "application/x-yaml",
        "application/toml",
        "application/sql",
        "application/x-ndjson",
        "image/svg+xml",
    ];
    if kind.is_empty() {
        return std::str::from_utf8(body).is_ok();
    }
    kind.starts_with("text/")
        || TEXT.contains(&kind)
        || kind.ends_with("+json")
        || kind.ends_with("+xml")
}

/// Decodes text by the byte order mark, the charset of the content type, that of the page, or
/// UTF-8. Invalid bytes become U+FFFD.
pub(super) fn text<'a>(headers: &HeaderMap, bytes: &'a [u8]) -> Cow<'a, str> {
    let start = &bytes[..bytes.len().min(1024)];
    let named = charset(content_type(headers).as_bytes())
        .unwrap_or_else(|| charset(start).unwrap_or(UTF_8));
    named.decode(bytes).0
}

/// Returns the charset after the first `charset=`.
fn charset(text: &[u8]) -> Option<&'static Encoding> {
    let lower = text.to_ascii_lowercase();
    let at = lower.windows(8).position(|eight| eight == b"charset=")? + 8;
    let rest = lower[at..].trim_ascii_start();
    let rest = match rest {
        [b'"' | b'\'', rest @ ..] => rest,
        rest => rest,
    };
    let end = rest.iter().position(|b| !(b.is_ascii_alphanumeric() || b"-_:".contains(b)));
    Encoding::for_label(&rest[..end.unwrap_or(rest.len())])
}
