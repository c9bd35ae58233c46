//! The event streams that are open now: of everybody, for the metrics, and of each principal, up to a limit. A stream
//! that ends gives its place back, and a principal without streams takes no room here.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use dashmap::DashMap;
use lockgate_authn::Principal;

/// See the module.
#[derive(Default)]
pub(crate) struct Streams {
    all: AtomicUsize,
    waiting: DashMap<Principal, usize>,
}

/// One open stream. Counted until it is dropped.
pub(crate) struct Open {
    streams: Arc<Streams>,
    /// Whose limit it counts against.
    of: Option<Principal>,
}

impl Streams {
    pub(crate) fn len(&self) -> usize {
        self.all.load(Ordering::Relaxed)
    }

    /// A stream of a call: it ends with the call, and is bounded like calls are.
    pub(crate) fn of_call(self: &Arc<Self>) -> Open {
        self.all.fetch_add(1, Ordering::Relaxed);
        Open { streams: Arc::clone(self), of: None }
    }

    /// A stream that waits for news; `None` when its principal has `limit` of them already.
    pub(crate) fn open(self: &Arc<Self>, principal: &Principal, limit: usize) -> Option<Open> {
        let mut count = self.waiting.entry(principal.clone()).or_insert(0);
        if *count >= limit {
            return None;
        }
        *count += 1;
        drop(count);
        self.all.fetch_add(1, Ordering::Relaxed);
        Some(Open { streams: Arc::clone(self), of: Some(principal.clone()) })
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.streams.all.fetch_sub(1, Ordering::Relaxed);
        let Some(principal) = &self.of else { return };
        self.streams.waiting.remove_if_mut(principal, |_, count| {
            *count = count.saturating_sub(1);
            *count == 0
        });
    }
}

#[cfg(test)]
mod tests;
