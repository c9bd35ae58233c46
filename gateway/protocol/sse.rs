//! Writers of server-sent events, as framed by the HTML standard.

use bytes::BufMut;
use memchr::memchr2;

/// Writes a message. Data with line breaks becomes several data lines; the reader receives each
/// break as LF. An id with CR, LF or NUL cannot be sent and is left out.
pub fn encode(out: &mut impl BufMut, id: Option<&str>, data: &[u8]) {
    write_id(out, id);
    write_data(out, data);
}

/// Writes a comment as a keep-alive, which every reader skips.
pub fn comment(out: &mut impl BufMut) {
    out.put_slice(b":\n\n");
}

/// Writes an event with an id and empty data, the first of a stream that may be polled
/// (2025-11-25). `ms` is the time to wait before reconnecting.
pub fn retry(out: &mut impl BufMut, ms: Option<u64>, id: Option<&str>) {
    if let Some(ms) = ms {
        out.put_slice(b"retry: ");
        out.put_slice(ms.to_string().as_bytes());
        out.put_u8(b'\n');
    }
    encode(out, id, b"");
}

/// Writes the first event of an HTTP+SSE stream (2024-11-05): the address for POST requests.
pub fn endpoint(out: &mut impl BufMut, uri: &str) {
    out.put_slice(b"event: endpoint\n");
    write_data(out, uri.as_bytes());
}

fn write_id(out: &mut impl BufMut, id: Option<&str>) {
    let Some(id) = id else { return };
    if memchr::memchr3(b'\r', b'\n', 0, id.as_bytes()).is_some() {
        return;
    }
    out.put_slice(b"id: ");
    out.put_slice(id.as_bytes());
    out.put_u8(b'\n');
}

/// Splits off the first line, before its ending; `None` if no line ends.
fn split_line(data: &[u8]) -> Option<(&[u8], &[u8])> {
    data.split_at_checked(memchr2(b'\r', b'\n', data)?)
}

fn write_data(out: &mut impl BufMut, mut data: &[u8]) {
    loop {
        out.put_slice(b"data: ");
        let Some((line, ending)) = split_line(data) else {
            out.put_slice(data);
            out.put_slice(b"\n\n");
            return;
        };
        out.put_slice(line);
        out.put_u8(b'\n');
        let skip = if ending.starts_with(b"\r\n") { 2 } else { 1 };
        data = ending.get(skip..).unwrap_or(&[]);
    }
}

#[cfg(test)]
mod tests;
