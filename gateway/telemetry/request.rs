//! Which request a log line is about: a tag that goes with the request's future and is read only
//! when a line is written. It takes an id from outside only if that is short and plain, and keeps
//! no more than the start of a JSON-RPC id.

use std::cell::Cell;
use std::fmt;
use std::net::IpAddr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use crate::trace::{TraceContext, TraceIds};

/// Longest id that is taken from a client, in bytes.
const MAX_GIVEN: usize = 64;
/// Bytes kept of a JSON-RPC id: a UUID in quotes fits.
const MAX_RPC: usize = 40;

static NUMBER: AtomicU64 = AtomicU64::new(1);
/// Somebody wants to know in which trace a line is.
static KEEPS_TRACES: AtomicBool = AtomicBool::new(false);

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
    trace: Cell<Option<TraceIds>>,
}

impl Tag {
    /// The tag of a request whose client named it so, or not at all; on stdio it has not arrived
    /// from anywhere.
    #[must_use]
    pub fn new(given: Option<&[u8]>, arrival: Option<Arrival>) -> Self {
        let given = match given {
            Some(id) if is_usable(id) => str::from_utf8(id).ok(),
            _ => None,
        };
        let given = given.map(Into::into);
        let number = NUMBER.fetch_add(1, Relaxed);
        Self { given, arrival, number, rpc: Cell::new((0, [0; MAX_RPC])), trace: Cell::new(None) }
    }

    /// The id that the client gave, if it can be used.
    #[must_use]
    pub fn given(&self) -> Option<&str> {
        self.given.as_deref()
    }

    /// What each line says of the request, in characters that no format escapes; empty where it is
    /// not known.
    pub(crate) fn describe(&self) -> [(&'static str, String); 3] {
        let (n, rpc) = self.rpc.get();
        let client = match self.arrival {
            Some(arrival) => arrival.address.to_string(),
            None => String::new(),
        };
        [
            ("request_id", self.to_string()),
            ("rpc_id", show_rpc_id(rpc.get(..n.into()).unwrap_or(&[]))),
            ("client", client),
        ]
    }

    /// The span of the request, if that is known.
    pub(crate) fn trace(&self) -> Option<TraceIds> {
        self.trace.get()
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

/// Has [`has_trace`] keep what it is told, from now on.
pub(crate) fn keep_traces() {
    KEEPS_TRACES.store(true, Relaxed);
}

/// The request's span is known now. `find` is asked where a log goes that says so.
pub fn has_trace(find: impl FnOnce() -> Option<TraceContext>) {
    if !KEEPS_TRACES.load(Relaxed) {
        return;
    }
    if let Some(context) = find() {
        see_current(|tag| tag.trace.set(Some(context.ids())));
    }
}

/// Shows the tag of the request that is being worked on; nothing outside of requests.
pub(crate) fn see_current(see: impl FnOnce(&Tag)) {
    let _ = CURRENT.try_with(see);
}

/// A line of the log, its end included, with the tag of the request that is being worked on;
/// nothing outside of requests.
pub(crate) fn tagged(line: &[u8], json: bool) -> Option<Vec<u8>> {
    let end: &[u8] = if json { b"}\n" } else { b"\n" };
    let text = line.strip_suffix(end)?;
    CURRENT
        .try_with(|tag| {
            let mut line = text.to_vec();
            for (name, value) in tag.describe() {
                append(&mut line, json, name, &value);
            }
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
