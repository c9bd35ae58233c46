//! Writes JSON text by hand: strings, members, error objects. Callers splice scanned spans in
//! between.

use std::cell::Cell;

use serde_json::Value;

use crate::scan::{self, ScanError, Scanner, plain_run, string_end};

/// Largest buffer kept for the next text of the thread, in bytes.
const MAX_KEPT: usize = 64 << 10;

thread_local! {
    static BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Passes an empty buffer of the thread, whose memory is reused.
pub fn with_buffer<T>(write: impl FnOnce(&mut Vec<u8>) -> T) -> T {
    let mut buffer = BUFFER.take();
    buffer.clear();
    let written = write(&mut buffer);
    if buffer.capacity() <= MAX_KEPT {
        BUFFER.set(buffer);
    }
    written
}

/// Appends `text` as a JSON string, quotes included.
pub fn string(out: &mut Vec<u8>, text: &str) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    out.push(b'"');
    let mut rest = text.as_bytes();
    loop {
        let (plain, tail) = rest.split_at(plain_run(rest));
        out.extend_from_slice(plain);
        let Some((&byte, after)) = tail.split_first() else { break };
        rest = after;
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            _ => {
                out.extend_from_slice(b"\\u00");
                for nibble in [byte >> 4, byte & 15] {
                    out.push(*HEX.get(usize::from(nibble)).unwrap_or(&b'0'));
                }
            }
        }
    }
    out.push(b'"');
}

pub fn quoted(text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() + 2);
    string(&mut out, text);
    out
}

/// Appends a number in decimal.
pub fn number(out: &mut Vec<u8>, n: u64) {
    out.extend_from_slice(itoa::Buffer::new().format(n).as_bytes());
}

/// A writer of an object's members that inserts the commas.
pub struct Object<'a> {
    out: &'a mut Vec<u8>,
    first: bool,
}

impl<'a> Object<'a> {
    pub fn open(out: &'a mut Vec<u8>) -> Self {
        out.push(b'{');
        Self { out, first: true }
    }

    /// Resumes an object that was opened before.
    pub fn resume(out: &'a mut Vec<u8>) -> Self {
        let first = out.ends_with(b"{");
        Self { out, first }
    }

    fn comma(&mut self) {
        if !self.first {
            self.out.push(b',');
        }
        self.first = false;
    }

    /// Writes a key; the caller writes the value into the returned buffer.
    pub fn key(&mut self, key: &str) -> &mut Vec<u8> {
        self.comma();
        string(self.out, key);
        self.out.push(b':');
        self.out
    }

    /// Writes a member; its key needs no escapes (a literal) and its value is JSON text.
    pub fn raw(&mut self, key: &str, value: &[u8]) {
        self.copy(key.as_bytes(), value);
    }

    /// Writes a member copied from scanned text, with the raw `key` between its quotes.
    pub fn copy(&mut self, key: &[u8], value: &[u8]) {
        self.comma();
        self.out.push(b'"');
        self.out.extend_from_slice(key);
        self.out.extend_from_slice(b"\":");
        self.out.extend_from_slice(value);
    }

    /// Writes a key and returns the position at which the caller inserts the value later.
    pub fn leave(&mut self, key: &[u8]) -> usize {
        self.copy(key, b"");
        self.out.len()
    }

    /// Writes a string; its key needs no escapes (a literal).
    pub fn string(&mut self, key: &str, value: &str) {
        self.raw(key, b"");
        string(self.out, value);
    }

    pub fn close(self) {
        self.out.push(b'}');
    }
}

/// Writes an item of an array, given as JSON text.
pub type CopyItem<'a> = dyn FnMut(&mut Vec<u8>, &[u8]) -> Result<(), ScanError> + 'a;

/// Copies an array. `copy` writes each item, or nothing to leave it out.
///
/// # Errors
/// A flaw in the text, or an error of `copy`.
pub fn items(out: &mut Vec<u8>, array: &[u8], copy: &mut CopyItem<'_>) -> Result<(), ScanError> {
    out.push(b'[');
    let first = out.len();
    Scanner::new(array, scan::MAX_DEPTH)?.array(&mut |scanner| {
        let item = scanner.value()?;
        let before = out.len();
        if before > first {
            out.push(b',');
        }
        let start = out.len();
        copy(out, item.of(array))?;
        if out.len() == start {
            out.truncate(before);
        }
        Ok(())
    })?;
    out.push(b']');
    Ok(())
}

/// Writes an error response. `id` is JSON text, or `None` if it could not be read (the member is
/// then absent).
pub fn error(id: Option<&[u8]>, code: i64, message: &str, data: Option<&Value>) -> Vec<u8> {
    let mut out = Vec::with_capacity(96 + message.len());
    let mut response = Object::open(&mut out);
    response.string("jsonrpc", "2.0");
    if let Some(id) = id {
        response.raw("id", id);
    }
    let mut error = Object::open(response.key("error"));
    error.raw("code", code.to_string().as_bytes());
    error.string("message", message);
    if let Some(data) = data {
        error.raw("data", data.to_string().as_bytes());
    }
    error.close();
    response.close();
    out
}

/// Writes a result response around JSON text.
pub fn result(id: &[u8], result: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(32 + id.len() + result.len());
    result_head(&mut out, id);
    out.extend_from_slice(result);
    out.push(b'}');
    out
}

/// Writes a result response up to its result; the caller adds the result and one `}`.
pub fn result_head(out: &mut Vec<u8>, id: &[u8]) {
    out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
    out.extend_from_slice(id);
    out.extend_from_slice(b",\"result\":");
}

/// Returns the id of a response that this module wrote, from the start of its text.
pub fn id_of_response(start: &[u8]) -> Option<&[u8]> {
    let rest = start.strip_prefix(b"{\"jsonrpc\":\"2.0\",\"id\":")?;
    let end = match rest.first()? {
        b'"' => string_end(rest, 1)? + 1,
        _ => memchr::memchr(b',', rest)?,
    };
    let (id, after) = rest.split_at_checked(end)?;
    // Requests written by this module have an id too.
    let is_response = after.starts_with(b",\"result\":") || after.starts_with(b",\"error\":");
    if is_response { Some(id) } else { None }
}

/// Writes a notification around the JSON text of its params.
pub fn notification(method: &str, params: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(48 + method.len() + params.len());
    out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"method\":\"");
    out.extend_from_slice(method.as_bytes());
    out.extend_from_slice(b"\",\"params\":");
    out.extend_from_slice(params);
    out.push(b'}');
    out
}

#[cfg(test)]
mod tests;
