//! What the request path counts with: plain atomics behind handles that are resolved before a call
//! comes. Nothing here locks or allocates after it was made.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU8, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::Mutex;

use crate::histogram::Histogram;

/// A closed set of label values; the discriminant is the index of its counter.
macro_rules! labels {
    ($(#[$doc:meta])* $name:ident {
        $($(#[$variant_doc:meta])* $variant:ident = $label:literal,)*
    }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$variant_doc])* $variant,)* }

        impl $name {
            /// All of them, in the order of their counters.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The label value and the word in logs.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $label,)* }
            }
        }
    };
}

labels! {
    /// How a call ended, as the client sees it.
    Outcome {
        Ok = "ok",
        /// A result with `isError`.
        ToolError = "tool_error",
        /// A JSON-RPC error.
        ProtocolError = "protocol_error",
        /// Policy said no; the server was not called.
        Denied = "denied",
        Timeout = "timeout",
        /// By the client.
        Cancelled = "cancelled",
        /// The server could not be reached, or its breaker was open.
        Unavailable = "unavailable",
    }
}

labels! {
    /// What became of a message that a call waits for approvers.
    Notification {
        Delivered = "delivered",
        /// Given up after all attempts.
        Failed = "failed",
        /// Too many waited to be sent.
        Dropped = "dropped",
    }
}

labels! {
    /// Why a request was refused before it became a call.
    Rejection {
        /// `Host` is not one of ours.
        Host = "host",
        Origin = "origin",
        /// No or wrong credentials.
        Unauthenticated = "unauthenticated",
        /// Good credentials, but not for this.
        Forbidden = "forbidden",
        NotFound = "not_found",
        /// HTTP method, media type or `Accept`.
        Unsupported = "unsupported",
        /// HTTP, JSON or JSON-RPC that does not hold to the rules.
        Malformed = "malformed",
        /// Headers and body disagree.
        Mismatch = "mismatch",
        BodyTooLarge = "body_too_large",
        HeadersTooLarge = "headers_too_large",
        /// The client took too long to send it.
        SlowClient = "slow_client",
        /// The session is unknown or belongs to somebody else.
        Session = "session",
        RateLimited = "rate_limited",
        /// A bound of the gateway was reached.
        Overloaded = "overloaded",
    }
}

labels! {
    /// What a server is doing.
    ServerState {
        Pending = "pending",
        Connected = "connected",
        Unresponsive = "unresponsive",
        NeedsAuth = "needs_auth",
        Failed = "failed",
        Disabled = "disabled",
    }
}

const OUTCOMES: usize = Outcome::ALL.len();

/// Counters of one tool of one server, or of all further tools of a server under the name `other`.
#[derive(Debug)]
pub struct ToolMetrics {
    server: Arc<ServerMetrics>,
    calls: [AtomicU64; OUTCOMES],
    /// Microseconds of the calls that the server had a part in.
    spent: AtomicU64,
}

impl ToolMetrics {
    pub(crate) fn new(server: Arc<ServerMetrics>) -> Self {
        Self { server, calls: Default::default(), spent: AtomicU64::new(0) }
    }

    /// Counts one call that has ended. Its duration goes to the server's histogram, unless it was
    /// denied: then the server had no part in it.
    pub fn record(&self, outcome: Outcome, duration: Duration) {
        self.calls[outcome as usize].fetch_add(1, Relaxed);
        if outcome != Outcome::Denied {
            self.server.durations.observe(duration);
            self.spent.fetch_add(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX), Relaxed);
        }
    }

    /// Seconds that calls took, without those that were denied.
    pub(crate) fn spent(&self) -> f64 {
        self.spent.load(Relaxed) as f64 / 1e6
    }

    /// Calls that ended this way.
    pub fn count(&self, outcome: Outcome) -> u64 {
        self.calls[outcome as usize].load(Relaxed)
    }

    /// The server that this tool is counted under.
    pub fn server(&self) -> &Arc<ServerMetrics> {
        &self.server
    }
}

/// Counters of one server.
#[derive(Debug)]
pub struct ServerMetrics {
    pub(crate) durations: Histogram,
    state: AtomicU8,
    restarts: AtomicU64,
    list_changes: AtomicU64,
    quarantined: AtomicU64,
    bounds: Mutex<Option<Bounds>>,
}

/// How a server stands with its bounds.
#[derive(Clone, Debug)]
pub struct Bounds {
    /// Calls that run, and how many may.
    pub running: usize,
    pub concurrency: usize,
    /// Calls that wait for a place, and how many may.
    pub waiting: usize,
    pub queue: usize,
    /// For one call.
    pub timeout: Duration,
    /// The breaker lets no calls through, or one to try.
    pub open: bool,
}

impl ServerMetrics {
    pub(crate) fn new() -> Self {
        Self {
            durations: Histogram::default(),
            state: AtomicU8::new(ServerState::Pending as u8),
            restarts: AtomicU64::new(0),
            list_changes: AtomicU64::new(0),
            quarantined: AtomicU64::new(0),
            bounds: Mutex::new(None),
        }
    }

    /// Exported as one gauge per state, 1 for this one and 0 for the others.
    pub fn set_state(&self, state: ServerState) {
        self.state.store(state as u8, Relaxed);
    }

    pub(crate) fn is(&self, state: ServerState) -> bool {
        self.state.load(Relaxed) == state as u8
    }

    /// The server was started or connected again.
    pub fn restarted(&self) {
        self.restarts.fetch_add(1, Relaxed);
    }

    /// The server's lists were read again and differ.
    pub fn list_changed(&self) {
        self.list_changes.fetch_add(1, Relaxed);
    }

    /// Tools that are neither listed nor callable until somebody approves them.
    pub fn set_quarantined(&self, tools: usize) {
        self.quarantined.store(tools as u64, Relaxed);
    }

    /// Exported as they were last told; nothing before.
    pub fn set_load(&self, bounds: &Bounds) {
        *self.bounds.lock() = Some(bounds.clone());
    }

    pub(crate) fn bounds(&self) -> Option<Bounds> {
        self.bounds.lock().clone()
    }

    pub(crate) fn quarantined(&self) -> u64 {
        self.quarantined.load(Relaxed)
    }

    pub(crate) fn restarts(&self) -> u64 {
        self.restarts.load(Relaxed)
    }

    pub(crate) fn list_changes(&self) -> u64 {
        self.list_changes.load(Relaxed)
    }
}

/// A number that goes up and down, such as open sessions. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Gauge(Arc<AtomicI64>);

impl Gauge {
    /// One more, until the returned value is dropped.
    #[must_use = "the gauge goes down again when this is dropped"]
    pub fn enter(&self) -> Entered {
        self.0.fetch_add(1, Relaxed);
        Entered(self.0.clone())
    }

    /// For numbers that are counted elsewhere.
    pub fn set(&self, value: usize) {
        self.0.store(i64::try_from(value).unwrap_or(i64::MAX), Relaxed);
    }

    pub fn get(&self) -> i64 {
        self.0.load(Relaxed)
    }
}

/// Holds a [`Gauge`] up by one.
#[derive(Debug)]
pub struct Entered(Arc<AtomicI64>);

impl Drop for Entered {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}
