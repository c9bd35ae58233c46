//! The readers of large messages: waiting for room, and eviction of the largest.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Interval at which waiting readers check again.
pub(crate) const CHECK_INTERVAL: Duration = Duration::from_millis(25);

#[derive(Default)]
pub(crate) struct Readers {
    state: Mutex<ReadersState>,
    /// Number of readers that wait for room.
    pub(crate) waiting: AtomicUsize,
    pub(crate) room: Notify,
}

#[derive(Default)]
struct ReadersState {
    open: Vec<Arc<ReaderEntry>>,
    /// Time of the last eviction; its memory takes a moment to be released.
    told: Option<Instant>,
}

pub(crate) struct ReaderEntry {
    pub(crate) bytes: AtomicUsize,
    pub(crate) has_to_go: AtomicBool,
    pub(crate) told: Notify,
}

impl Readers {
    /// Wakes waiting readers after memory was returned.
    pub(crate) fn wake(&self) {
        if self.waiting.load(Ordering::Relaxed) > 0 {
            self.room.notify_waiters();
        }
    }

    pub(crate) fn add(&self) -> Arc<ReaderEntry> {
        let entry = Arc::new(ReaderEntry {
            bytes: AtomicUsize::new(0),
            has_to_go: AtomicBool::new(false),
            told: Notify::new(),
        });
        self.state.lock().open.push(Arc::clone(&entry));
        entry
    }

    pub(crate) fn remove(&self, entry: &Arc<ReaderEntry>) {
        let mut state = self.state.lock();
        if let Some(at) = state.open.iter().position(|open| Arc::ptr_eq(open, entry)) {
            state.open.swap_remove(at);
        }
    }

    /// Evicts the reader with the most memory, unless an eviction has just happened. Returns
    /// `false` if there is no reader with at least `total` bytes, the size of the calling reader.
    pub(crate) fn tell_largest(&self, total: usize) -> bool {
        let mut state = self.state.lock();
        let now = Instant::now();
        if state.told.is_some_and(|told| now.duration_since(told) < CHECK_INTERVAL) {
            return true;
        }
        let stay = state.open.iter().filter(|entry| !entry.has_to_go.load(Ordering::Relaxed));
        let largest = stay.max_by_key(|entry| entry.bytes.load(Ordering::Relaxed));
        let Some(largest) = largest else { return false };
        if largest.bytes.load(Ordering::Relaxed) < total {
            return false;
        }
        largest.has_to_go.store(true, Ordering::Release);
        largest.told.notify_one();
        state.told = Some(now);
        true
    }
}

/// Counts a waiting reader.
pub(crate) struct Waits<'a>(&'a AtomicUsize);

impl<'a> Waits<'a> {
    pub(crate) fn begin(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
