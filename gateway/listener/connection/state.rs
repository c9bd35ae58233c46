//! What is known of one connection: plain atomics, which its task, its requests and the sweep
//! share.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};

use futures_util::task::AtomicWaker;
use http::Version;
use lockgate_admission::budget::Budget;

use super::content_length::ContentLengthCount;
use crate::request_body::HasBudget;
use crate::unfinished::ConnectionUsage;

/// Why a connection is to close, and how; the higher one counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum CloseReason {
    /// It stays open.
    None,
    /// Finish what runs, take nothing new.
    Graceful,
    /// The client does not finish its header block: say so and close.
    LateHeaders,
    /// The client takes nothing of what is written to it: close now.
    UnreadAnswer,
    /// Close now.
    Abort,
}

/// What is known of one connection. Shared by its task, its requests and the sweep.
pub(crate) struct ConnectionState {
    pub(super) address: IpAddr,
    /// Bytes reach HTTP: handshakes are done.
    pub(super) handshake_done: AtomicBool,
    /// Somebody known has used it.
    pub(super) authenticated: AtomicBool,
    close_reason: AtomicU8,
    pub(super) waker: AtomicWaker,
    /// Requests that run or stream.
    pub(super) active: AtomicU32,
    /// Requests so far.
    pub(super) requests: AtomicU32,
    /// Bytes came since the last request began or ended.
    pub(super) received: AtomicBool,
    /// Bytes went out since the last sweep.
    pub(super) wrote: AtomicBool,
    /// The peer does not take what we write.
    pub(super) write_blocked: AtomicBool,
    pub(super) http2: AtomicBool,
    /// The client speaks HTTP/1.0.
    http10: AtomicBool,
    /// On HTTP/1, which answers one request after another: the answer to the last one has begun.
    answering: AtomicBool,
    /// An event stream is to write a comment, so that it shows whether the client is there.
    comment: AtomicBool,
    /// On HTTP/2, whose streams a client can hold up one by one: answers that wait to be written.
    pub(super) pending_writes: AtomicU32,
    /// Some of them were written since the last sweep.
    pub(super) write_progress: AtomicBool,
    /// Bodies that are still to come.
    pub unfinished: ConnectionUsage,
    /// On HTTP/1.
    pub content_lengths: ContentLengthCount,
    /// The account of bytes in flight, of all connections.
    budget: Arc<Budget>,
}

/// A request that runs or streams, until this is dropped.
pub(crate) struct ActiveRequest(Arc<ConnectionState>);

impl ConnectionState {
    pub(super) fn new(address: IpAddr, budget: Arc<Budget>) -> Self {
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
            content_lengths: ContentLengthCount::default(),
            budget,
        }
    }

    /// The state of a connection that nobody sweeps.
    #[cfg(test)]
    pub(crate) fn untracked() -> Arc<Self> {
        Arc::new(Self::new(IpAddr::from([127, 0, 0, 1]), Arc::new(Budget::new(1000))))
    }

    /// Handshakes are done: from now on HTTP reads what comes.
    pub(crate) fn set_protocol(&self, http2: bool) {
        self.http2.store(http2, Ordering::Relaxed);
        self.handshake_done.store(true, Ordering::Relaxed);
    }

    /// Somebody known has made a request.
    pub(crate) fn mark_authenticated(&self) {
        if !self.authenticated.load(Ordering::Relaxed) {
            self.authenticated.store(true, Ordering::Relaxed);
        }
    }

    /// Takes nothing new after what runs, where HTTP can say so in between: on HTTP/2.
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

    /// A request in this version of HTTP has come.
    pub(crate) fn set_version(&self, version: Version) {
        self.http10.store(version == Version::HTTP_10, Ordering::Relaxed);
    }

    /// What is written from now on belongs to the answer.
    pub(crate) fn mark_answering(&self) {
        self.answering.store(true, Ordering::Relaxed);
    }

    /// A client of HTTP/1 has asked, and is not answered completely.
    pub(super) fn awaits_answer(&self) -> bool {
        !self.http2.load(Ordering::Relaxed) && self.active.load(Ordering::Relaxed) > 0
    }

    pub(super) fn is_http10(&self) -> bool {
        self.http10.load(Ordering::Relaxed)
    }

    pub(super) fn is_answering(&self) -> bool {
        self.answering.load(Ordering::Relaxed)
    }

    pub(super) fn request_comment(&self) {
        self.comment.store(true, Ordering::Relaxed);
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

    pub(super) fn close(&self, reason: CloseReason) {
        self.close_reason.fetch_max(reason as u8, Ordering::AcqRel);
        self.waker.wake();
    }
}

impl ActiveRequest {
    /// The same request once more.
    pub(crate) fn duplicate(&self) -> Self {
        self.0.active.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(&self.0))
    }

    /// Whether a comment is to be written in an event stream, once for each time that one is.
    pub(crate) fn take_comment_request(&self) -> bool {
        self.0.comment.load(Ordering::Relaxed) && self.0.comment.swap(false, Ordering::Relaxed)
    }

    /// Bytes wait to be written from now on.
    pub(crate) fn add_pending_write(&self) {
        if self.0.http2.load(Ordering::Relaxed) {
            self.0.pending_writes.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Some of them were written.
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
