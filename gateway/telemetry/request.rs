//! Which request a log line is about: a tag that goes with the request's future and is read only
//! when a line is written. It takes an id from outside only if that is short and plain, and keeps
//! no more than the start of a JSON-RPC id.

use std::cell::Cell;
use std::fmt;
use std::net::IpAddr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Longest id that is taken from a client, in bytes.
const MAX_GIVEN: usize = 64;
/// Bytes kept of a JSON-RPC id: a UUID in quotes fits.
const MAX_RPC: usize = 40;

static NUMBER: AtomicU64 = AtomicU64::new(1);

tokio::task_local! {
    static CURRENT: Tag;
}

/// How a request came in over HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The client's address.
    pub address: IpAddr,
    pub port: Option<u16>,
    /// The version of HTTP, as `1.1`.
    pub version: Option<&'static str>,
}

/// The ids of one request, and how it came in.
#[derive(Debug)]
pub struct Tag {
    given: Option<Box<str>>,
    arrival: Option<Arrival>,
    number: u64,
    rpc: Cell<(u8, [u8; MAX_RPC])>,
}

impl Tag {
    /// The tag of a request whose client named it so, or not at all; on stdio it has not arrived
    /// from anywhere.
    #[must_use]
    pub fn new(given: Option<&[u8]>, arrival: Option<Arrival>) -> Self {
        let given = given.filter(|id| is_usable(id));
        let given = given.and_then(|id| std::str::from_utf8(id).ok()).map(Into::into);
        let number = NUMBER.fetch_add(1, Relaxed);
        Self { given, arrival, number, rpc: Cell::new((0, [0; MAX_RPC])) }
    }

    /// The id that the client gave, if it can be used.
    #[must_use]
    pub fn given(&self) -> Option<&str> {
        self.given.as_deref()
    }
}

fn is_usable(id: &[u8]) -> bool {
    (1..=MAX_GIVEN).contains(&id.len())
        && id.iter().all(|b| b.is_ascii_alphanumeric() || b"-_.:".contains(b))
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Tells the lives of the gateway apart.
        static LIFE: OnceLock<u32> = OnceLock::new();
        match &self.given {
            Some(given) => f.write_str(given),
            None => write!(f, "{:08x}-{:x}", LIFE.get_or_init(|| fastrand::u32(..)), self.number),
        }
    }
}

/// Runs a request; every line that it logs on the way carries its tag.
pub fn within<F: Future>(tag: Tag, request: F) -> impl Future<Output = F::Output> {
    CURRENT.scope(tag, request)
}

/// How the request that is being worked on came in; nothing for stdio and outside of requests.
#[must_use]
pub fn arrival() -> Option<Arrival> {
    CURRENT.try_with(|tag| tag.arrival).ok().flatten()
}

/// The request's JSON-RPC id, as JSON text, is known now.
pub fn has_rpc_id(id: &[u8]) {
    let _ = CURRENT.try_with(|tag| {
        let mut kept = [0; MAX_RPC];
        let n = id.len().min(MAX_RPC);
        if let (Some(to), Some(from)) = (kept.get_mut(..n), id.get(..n)) {
            to.copy_from_slice(from);
        }
        tag.rpc.set((u8::try_from(n).unwrap_or(0), kept));
    });
}

/// A line of the log, its end included, with the tag of the request that is being worked on;
/// nothing outside of requests.
pub(crate) fn tagged(line: &[u8], json: bool) -> Option<Vec<u8>> {
    let end: &[u8] = if json { b"}\n" } else { b"\n" };
    let text = line.strip_suffix(end)?;
    CURRENT
        .try_with(|tag| {
            let (n, rpc) = tag.rpc.get();
            let rpc = show_rpc_id(rpc.get(..n.into()).unwrap_or_default());
            let client = tag.arrival.map(|arrival| arrival.address.to_string());
            let mut line = text.to_vec();
            append(&mut line, json, "request_id", &tag.to_string());
            append(&mut line, json, "rpc_id", &rpc);
            append(&mut line, json, "client", &client.unwrap_or_default());
            line.extend_from_slice(end);
            line
        })
        .ok()
}

/// A field that no format escapes, unless it is empty.
fn append(line: &mut Vec<u8>, json: bool, name: &str, value: &str) {
    if !value.is_empty() {
        let field = if json {
            [",\"", name, "\":\"", value, "\""].concat()
        } else {
            [" ", name, "=", value].concat()
        };
        line.extend_from_slice(field.as_bytes());
    }
}

/// A JSON-RPC id without its quotes, in characters that no log format escapes.
fn show_rpc_id(id: &[u8]) -> String {
    let mut shown = String::with_capacity(id.len());
    for &byte in id {
        match byte {
            b'"' => {}
            b'\\' => shown.push('?'),
            _ if byte.is_ascii_graphic() => shown.push(char::from(byte)),
            _ => shown.push('?'),
        }
    }
    shown
}

#[cfg(test)]
mod tests;
