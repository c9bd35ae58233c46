//! The tag that associates log lines with a request. It accompanies the request's future, and is
//! read only when a line is written. Ids from clients are accepted only if short and plain, and a
//! JSON-RPC id is truncated.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::net::IpAddr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use crate::trace::TraceContext;

/// Maximum bytes of an id from a client.
const MAX_GIVEN: usize = 64;
/// Bytes kept of a JSON-RPC id; a UUID in quotes fits.
const MAX_RPC: usize = 40;

static NUMBER: AtomicU64 = AtomicU64::new(1);
/// Set if log lines need the trace of their request.
static KEEPS_TRACES: AtomicBool = AtomicBool::new(false);

tokio::task_local! {
    static CURRENT: Tag;
}

/// The HTTP connection of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The client's address.
    pub address: IpAddr,
    pub port: Option<u16>,
    /// The HTTP version, such as `1.1`.
    pub version: Option<&'static str>,
}

/// The ids of one request, and its HTTP connection.
#[derive(Debug)]
pub struct Tag {
    given: Option<Box<str>>,
    arrival: Option<Arrival>,
    number: u64,
    rpc: Cell<(u8, [u8; MAX_RPC])>,
    trace: RefCell<Option<TraceContext>>,
}

impl Tag {
    /// Creates the tag of a request, with the client's id if it is usable. `arrival` is `None` on
    /// stdio.
    pub fn new(given: Option<&[u8]>, arrival: Option<Arrival>) -> Self {
        let given = given.filter(|id| is_usable(id)).and_then(|id| str::from_utf8(id).ok());
        let given = given.map(Into::into);
        let number = NUMBER.fetch_add(1, Relaxed);
        let rpc = Cell::new((0, [0; MAX_RPC]));
        Self { given, arrival, number, rpc, trace: RefCell::default() }
    }

    /// Returns the client's id, if it is usable.
    pub fn given(&self) -> Option<&str> {
        self.given.as_deref()
    }

    /// Returns the request's known fields for each line, in characters that no format escapes.
    pub(crate) fn describe(&self) -> impl Iterator<Item = (&'static str, String)> {
        let (n, rpc) = self.rpc.get();
        let client = self.arrival.map(|arrival| arrival.address.to_string()).unwrap_or_default();
        let fields = [
            ("request_id", self.to_string()),
            ("rpc_id", show_rpc_id(rpc.get(..n.into()).unwrap_or(&[]))),
            ("client", client),
        ];
        fields.into_iter().filter(|(_, value)| !value.is_empty())
    }

    pub(crate) fn trace(&self) -> Option<TraceContext> {
        self.trace.borrow().clone()
    }
}

fn is_usable(id: &[u8]) -> bool {
    (1..=MAX_GIVEN).contains(&id.len())
        && id.iter().all(|b| b.is_ascii_alphanumeric() || b"-_.:".contains(b))
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Distinguishes runs of the gateway.
        static LIFE: OnceLock<u32> = OnceLock::new();
        match &self.given {
            Some(given) => f.write_str(given),
            None => write!(f, "{:08x}-{:x}", LIFE.get_or_init(|| fastrand::u32(..)), self.number),
        }
    }
}

/// Runs a request, and adds its tag to every line that it logs.
pub fn within<F: Future>(tag: Tag, request: F) -> impl Future<Output = F::Output> {
    CURRENT.scope(tag, request)
}

/// Returns the HTTP connection of the current request; `None` on stdio and outside of requests.
#[must_use]
pub fn arrival() -> Option<Arrival> {
    CURRENT.try_with(|tag| tag.arrival).ok().flatten()
}

/// Sets the JSON-RPC id of the current request, given as JSON text.
pub fn has_rpc_id(id: &[u8]) {
    let _ = CURRENT.try_with(|tag| {
        let mut kept = [0; MAX_RPC];
        let n = id.len().min(MAX_RPC);
        kept[..n].copy_from_slice(&id[..n]);
        tag.rpc.set((u8::try_from(n).unwrap_or(0), kept));
    });
}

/// Enables [`has_trace`] from now on.
pub(crate) fn keep_traces() {
    KEEPS_TRACES.store(true, Relaxed);
}

/// Sets the span of the current request. `find` is called only if a log needs it.
pub fn has_trace(find: impl FnOnce() -> Option<TraceContext>) {
    if !KEEPS_TRACES.load(Relaxed) {
        return;
    }
    if let Some(context) = find() {
        see_current(|tag| _ = tag.trace.replace(Some(context)));
    }
}

/// Passes the tag of the current request, if any, to `see`.
pub(crate) fn see_current(see: impl FnOnce(&Tag)) {
    let _ = CURRENT.try_with(see);
}

/// Formats a JSON-RPC id without its quotes, in characters that no log format escapes.
fn show_rpc_id(id: &[u8]) -> String {
    let bytes = id.iter().filter(|byte| **byte != b'"');
    let shown = bytes.map(|byte| match byte {
        b'!'..=b'~' if *byte != b'\\' => char::from(*byte),
        _ => '?',
    });
    shown.collect()
}

#[cfg(test)]
mod tests;
