//! The budget of bytes in flight: messages while they arrive, are processed and wait for delivery.
//! A part is taken or returned in a single atomic step. Also the readers of large messages: waiting
//! for room, and eviction of the largest. `reader` decides about both when the budget is exhausted.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

/// The total memory for all messages in flight.
pub struct Budget {
    used: AtomicUsize,
    all: AtomicUsize,
    refused: AtomicU64,
    pub(crate) readers: Readers,
}

/// A part of a budget, returned on drop.
pub struct Hold<P: AsRef<Budget> = Arc<Budget>> {
    budget: P,
    bytes: usize,
}

/// The error message for a client in place of a response dropped for lack of memory. The call
/// behind it was made.
pub const DROPPED: &str = "the response was dropped because it does not fit into \
    limits.bytes_in_flight beside responses that other clients have not read; the call may have \
    taken effect";

/// Messages up to this size are always admitted: their number is bounded, and they may be awaited.
pub const MAX_SMALL_MESSAGE: usize = 4 * 1024;

/// Messages up to this size may use an additional part of memory, which larger messages cannot
/// take.
pub const MAX_MEDIUM_MESSAGE: usize = 64 * 1024;

/// The additional part for messages up to [`MAX_MEDIUM_MESSAGE`] is the budget divided by this.
const PART_FOR_MEDIUM: usize = 16;

/// The error for insufficient remaining bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

impl Budget {
    /// Creates a budget of `all` bytes.
    pub fn new(all: usize) -> Self {
        Self {
            used: AtomicUsize::new(0),
            all: AtomicUsize::new(all),
            refused: AtomicU64::new(0),
            readers: Readers::default(),
        }
    }

    /// Returns the bytes available to large messages.
    pub fn limit(&self) -> usize {
        self.all.load(Ordering::Relaxed)
    }

    /// Returns the number of messages refused or dropped because the budget was exhausted.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    pub(crate) fn count_refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the limit that applies to a message of `bytes`.
    fn limit_for(&self, bytes: usize) -> usize {
        let all = self.limit();
        if bytes > MAX_MEDIUM_MESSAGE { all } else { all.saturating_add(all / PART_FOR_MEDIUM) }
    }

    /// Sets the size. Existing holds are kept.
    pub fn resize(&self, all: usize) {
        self.all.store(all, Ordering::Relaxed);
    }

    /// Returns the bytes currently held.
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// Returns whether more than half is held, so that optional data should be dropped.
    pub fn is_scarce(&self) -> bool {
        self.used() > self.half()
    }

    fn half(&self) -> usize {
        self.limit() / 2
    }

    fn take(&self, bytes: usize, all: usize) -> Result<(), Full> {
        if bytes == 0 {
            return Ok(());
        }
        let taken = self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
            used.checked_add(bytes).filter(|used| *used <= all)
        });
        taken.map(|_| ()).map_err(|_| Full)
    }
}

impl<P: AsRef<Budget>> Hold<P> {
    /// Creates an empty hold.
    pub const fn none(budget: P) -> Self {
        Self { budget, bytes: 0 }
    }

    /// Takes `bytes` more.
    ///
    /// # Errors
    /// [`Full`]: nothing was taken.
    pub fn grow(&mut self, bytes: usize) -> Result<(), Full> {
        self.take(bytes, self.budget.as_ref().limit())
    }

    /// Takes `bytes` more, of a budget of `all`.
    fn take(&mut self, bytes: usize, all: usize) -> Result<(), Full> {
        self.budget.as_ref().take(bytes, all)?;
        self.bytes += bytes;
        Ok(())
    }

    /// Grows the hold to `total`, the size of a single message.
    ///
    /// # Errors
    /// [`Full`]: nothing was taken.
    pub(crate) fn reserve(&mut self, total: usize) -> Result<(), Full> {
        let more = total.saturating_sub(self.bytes);
        self.take(more, self.budget.as_ref().limit_for(total))
    }

    /// Sets the hold to exactly `bytes` even beyond the budget, for memory already in use.
    pub(crate) fn set_whatever(&mut self, bytes: usize) {
        match bytes.checked_sub(self.bytes) {
            Some(more) => {
                self.budget.as_ref().used.fetch_add(more, Ordering::Relaxed);
                self.bytes = bytes;
            }
            None => self.shrink(self.bytes - bytes),
        }
    }

    /// Returns the bytes held.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes `bytes` more for optional data, which must leave half of the budget free.
    ///
    /// # Errors
    /// [`Full`]: nothing was taken.
    pub fn grow_spare(&mut self, bytes: usize) -> Result<(), Full> {
        self.take(bytes, self.budget.as_ref().half())
    }

    /// Takes `bytes` more for a message on its way. Small messages are always admitted.
    ///
    /// # Errors
    /// [`Full`]: nothing was taken.
    pub fn admit(&mut self, bytes: usize) -> Result<(), Full> {
        if bytes > MAX_SMALL_MESSAGE {
            let taken = self.reserve(self.bytes.saturating_add(bytes));
            return taken.inspect_err(|_| self.budget.as_ref().count_refused());
        }
        self.budget.as_ref().used.fetch_add(bytes, Ordering::Relaxed);
        self.bytes += bytes;
        Ok(())
    }

    /// Returns up to `bytes` to the budget.
    pub fn shrink(&mut self, bytes: usize) {
        let bytes = bytes.min(self.bytes);
        if bytes > 0 {
            self.bytes -= bytes;
            let budget = self.budget.as_ref();
            budget.used.fetch_sub(bytes, Ordering::Relaxed);
            budget.readers.wake();
        }
    }

    /// Sets the hold to exactly `bytes`, for a message on its way to a client.
    ///
    /// # Errors
    /// [`Full`]: the hold is unchanged.
    pub fn set(&mut self, bytes: usize) -> Result<(), Full> {
        match bytes.checked_sub(self.bytes) {
            Some(more) if bytes <= MAX_SMALL_MESSAGE || more > MAX_SMALL_MESSAGE => {
                self.admit(more)
            }
            Some(_) => self.reserve(bytes),
            None => {
                self.shrink(self.bytes - bytes);
                Ok(())
            }
        }
    }

    /// Returns the handle of the budget.
    pub const fn by(&self) -> &P {
        &self.budget
    }
}

impl<P: AsRef<Budget>> Drop for Hold<P> {
    fn drop(&mut self) {
        self.shrink(self.bytes);
    }
}

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

/// Counts a waiter until it is dropped.
pub struct Waits<'a>(&'a AtomicUsize);

impl<'a> Waits<'a> {
    pub(crate) fn begin(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }

    /// Counts a waiter, unless there are `most` already.
    pub fn begin_within(count: &'a AtomicUsize, most: usize) -> Option<Self> {
        let waiting = count.fetch_add(1, Ordering::Relaxed);
        Some(Self(count)).filter(|_| waiting < most)
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
