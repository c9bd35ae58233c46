//! Connection tracking: state, deadlines, eviction when slots run out, and shutdown.
//!
//! Tasks record events of their connections in atomics, and one sweep per tick finds the
//! connections that are late. A request costs no timer, yet every phase (handshakes, a partial
//! header block, an idle or a blocked peer) is bounded.

mod io;
mod registry;

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};

use futures_util::task::AtomicWaker;
use http::Version;
use lockgate_admission::budget::Budget;

pub(crate) use io::{HttpIo, MeteredSocket};
pub(crate) use registry::{Connections, Registration, run_connection};

use crate::request_body::{ConnectionUsage, HasBudget};

/// The reason to close a connection, which also selects how. Higher reasons replace lower reasons.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum CloseReason {
    None,
    /// Completes running requests and accepts no others.
    Graceful,
    /// The header block is late: sends a 408 and closes.
    LateHeaders,
    /// The client accepts none of the written bytes: closes at once.
    UnreadAnswer,
    /// Closes at once.
    Abort,
}

pub(crate) struct ConnectionState {
    address: IpAddr,
    /// All handshakes are complete, and HTTP reads the bytes.
    handshake_done: AtomicBool,
    /// An authenticated request was received.
    authenticated: AtomicBool,
    close_reason: AtomicU8,
    waker: AtomicWaker,
    /// Requests that are running or streaming.
    active: AtomicU32,
    requests: AtomicU32,
    /// Bytes were received since the last request began or ended.
    received: AtomicBool,
    /// Bytes were written since the last sweep.
    wrote: AtomicBool,
    write_blocked: AtomicBool,
    http2: AtomicBool,
    http10: AtomicBool,
    /// HTTP/1 only: the response to the current request has begun.
    answering: AtomicBool,
    /// An event stream must write a comment as a probe for the client's presence.
    comment: AtomicBool,
    /// HTTP/2 only, where clients can block individual streams: responses with unwritten bytes.
    pending_writes: AtomicU32,
    /// Bytes of a pending response were written since the last sweep.
    write_progress: AtomicBool,
    pub unfinished: ConnectionUsage,
    budget: Arc<Budget>,
}

/// A request that is running or streaming, until dropped.
pub(crate) struct ActiveRequest(Arc<ConnectionState>);

impl ConnectionState {
    fn new(address: IpAddr, budget: Arc<Budget>) -> Self {
        Self {
            address: address.to_canonical(),
            handshake_done: AtomicBool::new(false),
            authenticated: AtomicBool::new(false),
            close_reason: AtomicU8::new(CloseReason::None as u8),
            waker: AtomicWaker::new(),
            active: AtomicU32::new(0),
            requests: AtomicU32::new(0),
            received: AtomicBool::new(false),
            wrote: AtomicBool::new(false),
            write_blocked: AtomicBool::new(false),
            http2: AtomicBool::new(false),
            http10: AtomicBool::new(false),
            answering: AtomicBool::new(false),
            comment: AtomicBool::new(false),
            pending_writes: AtomicU32::new(0),
            write_progress: AtomicBool::new(false),
            unfinished: ConnectionUsage::default(),
            budget,
        }
    }

    /// Returns a state that no registry tracks.
    #[cfg(test)]
    pub(crate) fn untracked() -> Arc<Self> {
        Arc::new(Self::new(IpAddr::from([127, 0, 0, 1]), Arc::new(Budget::new(1000))))
    }

    /// Sets the protocol after all handshakes are complete.
    pub(crate) fn set_protocol(&self, http2: bool) {
        self.http2.store(http2, Ordering::Relaxed);
        self.handshake_done.store(true, Ordering::Relaxed);
    }

    pub(crate) fn mark_authenticated(&self) {
        if !self.authenticated.load(Ordering::Relaxed) {
            self.authenticated.store(true, Ordering::Relaxed);
        }
    }

    /// Sends GOAWAY on HTTP/2 and completes running requests. Has no effect on HTTP/1.
    pub(crate) fn go_away(&self) {
        if self.http2.load(Ordering::Relaxed) && self.close_reason() == CloseReason::None {
            self.close(CloseReason::Graceful);
        }
    }

    pub(crate) fn begin_request(self: &Arc<Self>) -> ActiveRequest {
        self.active.fetch_add(1, Ordering::Relaxed);
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.received.store(false, Ordering::Relaxed);
        self.answering.store(false, Ordering::Relaxed);
        ActiveRequest(Arc::clone(self))
    }

    pub(crate) fn set_version(&self, version: Version) {
        self.http10.store(version == Version::HTTP_10, Ordering::Relaxed);
    }

    pub(crate) fn mark_answering(&self) {
        self.answering.store(true, Ordering::Relaxed);
    }

    pub(crate) fn close_reason(&self) -> CloseReason {
        match self.close_reason.load(Ordering::Acquire) {
            0 => CloseReason::None,
            1 => CloseReason::Graceful,
            2 => CloseReason::LateHeaders,
            3 => CloseReason::UnreadAnswer,
            _ => CloseReason::Abort,
        }
    }

    fn close(&self, reason: CloseReason) {
        self.close_reason.fetch_max(reason as u8, Ordering::AcqRel);
        self.waker.wake();
    }
}

impl ActiveRequest {
    /// Returns a second handle to the same request.
    pub(crate) fn duplicate(&self) -> Self {
        self.0.active.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(&self.0))
    }

    /// Returns whether an event stream must write a comment, and clears the flag.
    pub(crate) fn take_comment_request(&self) -> bool {
        self.0.comment.load(Ordering::Relaxed) && self.0.comment.swap(false, Ordering::Relaxed)
    }

    /// Counts a response with unwritten bytes, on HTTP/2.
    pub(crate) fn add_pending_write(&self) {
        if self.0.http2.load(Ordering::Relaxed) {
            self.0.pending_writes.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Records that bytes of a pending response were written, on HTTP/2.
    pub(crate) fn note_progress(&self) {
        if self.0.http2.load(Ordering::Relaxed) && !self.0.write_progress.load(Ordering::Relaxed) {
            self.0.write_progress.store(true, Ordering::Relaxed);
        }
    }

    pub(crate) fn remove_pending_write(&self) {
        if self.0.http2.load(Ordering::Relaxed) {
            self.0.pending_writes.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl HasBudget for ActiveRequest {
    fn budget(&self) -> &Arc<Budget> {
        &self.0.budget
    }
}

impl AsRef<Budget> for ActiveRequest {
    fn as_ref(&self) -> &Budget {
        &self.0.budget
    }
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        self.0.active.fetch_sub(1, Ordering::Relaxed);
        self.0.received.store(false, Ordering::Relaxed);
    }
}
