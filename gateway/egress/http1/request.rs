//! Request heads.

use http::header::{CONTENT_LENGTH, HOST, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderValue, Method, Request};

use super::Payload;

/// Most digits of a length.
const MAX_DIGITS: usize = 20;
/// Room for the headers of a single request, in bytes.
const ADDED_BYTES: usize = 256;

/// The head of a request without the framing of its body.
#[derive(Clone, Debug)]
pub struct RequestHead(Vec<u8>);

impl RequestHead {
    /// Writes a request line and headers, except those that frame a body.
    pub(crate) fn new(method: &Method, target: &str, headers: &HeaderMap) -> Self {
        let mut size = target.len() + 64;
        for (name, value) in headers {
            size += name.as_str().len() + value.len() + 4;
        }
        let mut head = Self(Vec::with_capacity(size));
        for part in [method.as_str(), " ", target, " HTTP/1.1\r\n"] {
            head.0.extend_from_slice(part.as_bytes());
        }
        for (name, value) in headers {
            if name != CONTENT_LENGTH && name != TRANSFER_ENCODING {
                head.write(name.as_str(), value.as_bytes());
            }
        }
        head
    }

    /// Writes a copy with room for further headers, and for so many bytes of a body.
    pub(crate) fn copy_to(&self, mut buffer: Vec<u8>, body: usize) -> Self {
        buffer.clear();
        buffer.reserve(self.0.len() + ADDED_BYTES + body);
        buffer.extend_from_slice(&self.0);
        Self(buffer)
    }

    /// Adds a header, unless its value cannot be sent.
    pub(crate) fn add(&mut self, name: &str, value: &[u8]) {
        // HTTP permits visible characters, blanks and tabs.
        if value.iter().all(|&byte| byte >= b' ' && byte != 127 || byte == b'\t') {
            self.write(name, value);
        }
    }

    fn write(&mut self, name: &str, value: &[u8]) {
        for part in [name.as_bytes(), b": ", value, b"\r\n"] {
            self.0.extend_from_slice(part);
        }
    }

    /// Ends the head of a request with a body of this length.
    pub(crate) fn with_length(mut self, length: usize) -> Vec<u8> {
        let mut digits = [0; MAX_DIGITS];
        let mut at = MAX_DIGITS;
        let mut rest = length;
        while let Some(slot) = at.checked_sub(1).and_then(|before| digits.get_mut(before)) {
            at -= 1;
            *slot = b'0' + u8::try_from(rest % 10).unwrap_or(0);
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        self.write(CONTENT_LENGTH.as_str(), digits.get(at..).unwrap_or(b"0"));
        self.end()
    }

    fn end(mut self) -> Vec<u8> {
        self.0.extend_from_slice(b"\r\n");
        self.0
    }
}

/// Writes the head of a request with this `Host`. The length of its body replaces any framing among
/// the headers.
pub(crate) fn write_request(
    mut request: Request<Payload>,
    host: HeaderValue,
) -> (Vec<u8>, Payload) {
    request.headers_mut().insert(HOST, host);
    let (parts, body) = request.into_parts();
    let target = parts.uri.path_and_query().map_or("/", |target| target.as_str());
    let head = RequestHead::new(&parts.method, target, &parts.headers);
    let needs_no_length = matches!(parts.method, Method::GET | Method::HEAD | Method::DELETE);
    match body.len() {
        0 if needs_no_length => (head.end(), body),
        length => (head.with_length(length), body),
    }
}
