//! What is known of one connection: plain atomics, which its task, its requests and the sweep share.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};

use futures_util::task::AtomicWaker;
use http::Version;
use lockgate_admission::budget::Budget;

use super::lengths::LengthLines;
use crate::intake::Account;
use crate::unfinished::ConnectionUsage;

/// What a connection is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Order {
    Open,
    /// Finish what runs, take nothing new.
    Close,
    /// The header block is late: say so and end.
    Late,
    /// The client takes nothing of what is written to it: end now.
    Unread,
    /// End now.
    Cut,
}

/// What is known of one connection. Shared by its task, its requests and the sweep.
pub(crate) struct Pulse {
    pub(super) address: IpAddr,
    /// Bytes reach HTTP: handshakes are done.
    pub(super) speaking: AtomicBool,
    /// Somebody known has used it.
    pub(super) authenticated: AtomicBool,
    pub(super) order: AtomicU8,
    pub(super) waker: AtomicWaker,
    /// Requests that run or stream.
    pub(super) active: AtomicU32,
    /// Requests so far.
    pub(super) requests: AtomicU32,
    /// Bytes came since the last request began or ended.
    pub(super) heard: AtomicBool,
    /// Bytes went out since the last sweep.
    pub(super) wrote: AtomicBool,
    /// The peer does not take what we write.
    pub(super) stuck: AtomicBool,
    pub(super) http2: AtomicBool,
    /// The client speaks HTTP/1.0.
    http10: AtomicBool,
    /// On HTTP/1, which answers one request after another: the answer to the last one has begun.
    answering: AtomicBool,
    /// An event stream is to write a comment, so that it shows whether the client is there.
    comment: AtomicBool,
    /// On HTTP/2, whose streams a client can hold up one by one: answers that wait to be written.
    pub(super) owed: AtomicU32,
    /// Some of them were written since the last sweep.
    pub(super) paid: AtomicBool,
    /// Bodies that are still to come.
    pub unfinished: ConnectionUsage,
    /// On HTTP/1.
    pub lengths: LengthLines,
    /// The account of bytes in flight, of all connections.
    budget: Arc<Budget>,
}

/// A request that runs or streams, until this is dropped.
pub(crate) struct Active(Arc<Pulse>);

impl Pulse {
    pub(super) fn new(address: IpAddr, budget: Arc<Budget>) -> Self {
        Self {
            address: address.to_canonical(),
            speaking: AtomicBool::new(false),
            authenticated: AtomicBool::new(false),
            order: AtomicU8::new(Order::Open as u8),
            waker: AtomicWaker::new(),
            active: AtomicU32::new(0),
            requests: AtomicU32::new(0),
            heard: AtomicBool::new(false),
            wrote: AtomicBool::new(false),
            stuck: AtomicBool::new(false),
            http2: AtomicBool::new(false),
            http10: AtomicBool::new(false),
            answering: AtomicBool::new(false),
            comment: AtomicBool::new(false),
            owed: AtomicU32::new(0),
            paid: AtomicBool::new(false),
            unfinished: ConnectionUsage::default(),
            lengths: LengthLines::default(),
            budget,
        }
    }

    /// A pulse that nobody sweeps.
    #[cfg(test)]
    pub(crate) fn alone() -> Arc<Self> {
        Arc::new(Self::new(IpAddr::from([127, 0, 0, 1]), Arc::new(Budget::new(1000))))
    }

    /// Handshakes are done: from now on HTTP reads what comes.
    pub(crate) fn speaks(&self, http2: bool) {
        self.http2.store(http2, Ordering::Relaxed);
        self.speaking.store(true, Ordering::Relaxed);
    }

    /// Somebody known has made a request.
    pub(crate) fn authenticate(&self) {
        if !self.authenticated.load(Ordering::Relaxed) {
            self.authenticated.store(true, Ordering::Relaxed);
        }
    }

    /// Takes nothing new after what runs, where HTTP can say so in between: on HTTP/2.
    pub(crate) fn go_away(&self) {
        if self.http2.load(Ordering::Relaxed) && self.order() == Order::Open {
            self.tell(Order::Close);
        }
    }

    pub(crate) fn begin(self: &Arc<Self>) -> Active {
        self.active.fetch_add(1, Ordering::Relaxed);
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.heard.store(false, Ordering::Relaxed);
        self.answering.store(false, Ordering::Relaxed);
        Active(Arc::clone(self))
    }

    /// A request in this version of HTTP has come.
    pub(crate) fn speaks_version(&self, version: Version) {
        self.http10.store(version == Version::HTTP_10, Ordering::Relaxed);
    }

    /// What is written from now on belongs to the answer.
    pub(crate) fn answers(&self) {
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

    pub(crate) fn order(&self) -> Order {
        match self.order.load(Ordering::Acquire) {
            0 => Order::Open,
            1 => Order::Close,
            2 => Order::Late,
            3 => Order::Unread,
            _ => Order::Cut,
        }
    }

    pub(super) fn tell(&self, order: Order) {
        self.order.fetch_max(order as u8, Ordering::AcqRel);
        self.waker.wake();
    }
}

impl Active {
    /// The same request once more.
    pub(crate) fn again(&self) -> Self {
        self.0.active.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(&self.0))
    }

    /// Whether a comment is to be written in an event stream, once for each time that one is.
    pub(crate) fn takes_comment(&self) -> bool {
        self.0.comment.load(Ordering::Relaxed) && self.0.comment.swap(false, Ordering::Relaxed)
    }

    /// Bytes wait to be written from now on.
    pub(crate) fn owes(&self) {
        if self.0.http2.load(Ordering::Relaxed) {
            self.0.owed.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Some of them were written.
    pub(crate) fn pays(&self) {
        if self.0.http2.load(Ordering::Relaxed) && !self.0.paid.load(Ordering::Relaxed) {
            self.0.paid.store(true, Ordering::Relaxed);
        }
    }

    pub(crate) fn owes_no_more(&self) {
        if self.0.http2.load(Ordering::Relaxed) {
            self.0.owed.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Account for Active {
    fn budget(&self) -> &Arc<Budget> {
        &self.0.budget
    }
}

impl AsRef<Budget> for Active {
    fn as_ref(&self) -> &Budget {
        &self.0.budget
    }
}

impl Drop for Active {
    fn drop(&mut self) {
        self.0.active.fetch_sub(1, Ordering::Relaxed);
        self.0.heard.store(false, Ordering::Relaxed);
    }
}
