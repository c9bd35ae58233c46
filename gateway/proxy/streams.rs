//! The event streams that are open now: of everybody, for the metrics, and of each principal, up to
//! a limit. A stream that ends gives its place back.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use lockgate_authn::Principal;

use crate::quota::{QuotaPermit, Quotas};

/// See the module.
#[derive(Default)]
pub(crate) struct Streams {
    all: AtomicUsize,
    waiting: Arc<Quotas>,
}

/// One open stream. Counted until it is dropped.
pub struct OpenStream {
    streams: Arc<Streams>,
    /// Of those that wait for news.
    _share: Option<QuotaPermit>,
}

impl Streams {
    pub(crate) fn len(&self) -> usize {
        self.all.load(Ordering::Relaxed)
    }

    /// A stream of a call: it ends with the call, and is bounded like calls are.
    pub(crate) fn of_call(self: &Arc<Self>) -> OpenStream {
        self.counted(None)
    }

    /// A stream that waits for news; `None` when its principal has `limit` of them already.
    pub(crate) fn open(
        self: &Arc<Self>,
        principal: &Principal,
        limit: usize,
    ) -> Option<OpenStream> {
        let share = self.waiting.take(principal, limit)?;
        Some(self.counted(Some(share)))
    }

    fn counted(self: &Arc<Self>, share: Option<QuotaPermit>) -> OpenStream {
        self.all.fetch_add(1, Ordering::Relaxed);
        OpenStream { streams: Arc::clone(self), _share: share }
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.streams.all.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
