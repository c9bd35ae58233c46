//! Memory for messages that are being read. A reader takes it from the budget as bytes arrive.
//! While the budget is exhausted the reader waits, which slows down the sender; after a timeout the
//! reader with the most memory is evicted, so that the others proceed.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use memmap2::{MmapMut, MmapOptions};
use tokio::time::Instant;

use crate::budget::{Budget, CHECK_INTERVAL, Hold, MAX_MEDIUM_MESSAGE, ReaderEntry, Waits};

/// Bytes of every message that are read without the budget; most messages are no longer.
pub const UNBUDGETED_BYTES: usize = 16 << 10;
/// The granularity of reservations.
const RESERVATION_STEP: usize = 64 << 10;
/// Time that a large message waits before the largest is evicted.
pub const EVICTION_TIMEOUT: Duration = Duration::from_secs(1);
/// Time that smaller messages wait for that.
const SHORT_TIMEOUT: Duration = Duration::from_millis(100);

/// The error of a message that is evicted or finds no room in the budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoMemory;

/// A message that is being read, with its hold on the budget.
pub struct Reader {
    hold: Hold,
    /// Registered for eviction from [`MAX_MEDIUM_MESSAGE`] on.
    entry: Option<Arc<ReaderEntry>>,
}

impl Reader {
    /// Creates a reader without a hold.
    pub fn new(budget: &Arc<Budget>) -> Self {
        Self { hold: Hold::none(Arc::clone(budget)), entry: None }
    }

    /// Ensures that memory for a message of `total` bytes so far is held. Waits for a bounded time.
    /// Cancel safe.
    ///
    /// # Errors
    /// [`NoMemory`]: the message must be dropped.
    pub async fn hold(&mut self, total: usize) -> Result<(), NoMemory> {
        if self.has_to_go() {
            return self.give_up();
        }
        if total <= self.hold.bytes().max(UNBUDGETED_BYTES) {
            return Ok(());
        }
        // A whole step if possible.
        if self.reserve(total.next_multiple_of(RESERVATION_STEP)) || self.reserve(total) {
            return Ok(());
        }
        Box::pin(self.wait(total)).await
    }

    async fn wait(&mut self, total: usize) -> Result<(), NoMemory> {
        let budget = Arc::clone(self.hold.by());
        if total > MAX_MEDIUM_MESSAGE && total > budget.limit() {
            return self.give_up();
        }
        let readers = &budget.readers;
        let _waits = Waits::begin(&readers.waiting);
        let timeout = if total > MAX_MEDIUM_MESSAGE { EVICTION_TIMEOUT } else { SHORT_TIMEOUT };
        let began = Instant::now();
        loop {
            let room = readers.room.notified();
            if self.has_to_go() {
                return self.give_up();
            }
            if self.reserve(total) {
                return Ok(());
            }
            let waited = began.elapsed();
            if waited >= timeout && !readers.tell_largest(total) && waited >= EVICTION_TIMEOUT {
                return self.give_up();
            }
            let _ = tokio::time::timeout(CHECK_INTERVAL, room).await;
        }
    }

    fn give_up<T>(&self) -> Result<T, NoMemory> {
        self.hold.by().count_refused();
        Err(NoMemory)
    }

    fn reserve(&mut self, total: usize) -> bool {
        if self.hold.reserve(total).is_err() {
            return false;
        }
        if total > MAX_MEDIUM_MESSAGE {
            let budget = self.hold.by();
            let entry = self.entry.get_or_insert_with(|| budget.readers.add());
            entry.bytes.store(total, Ordering::Relaxed);
        }
        true
    }

    fn has_to_go(&self) -> bool {
        self.entry.as_ref().is_some_and(|entry| entry.has_to_go.load(Ordering::Acquire))
    }

    /// Completes when this message is evicted; to be awaited beside the next bytes.
    pub async fn told(&self) -> NoMemory {
        let Some(entry) = &self.entry else { return std::future::pending().await };
        while !self.has_to_go() {
            entry.told.notified().await;
        }
        self.hold.by().count_refused();
        NoMemory
    }

    /// Returns whether [`Self::told`] can complete.
    pub fn is_known(&self) -> bool {
        self.entry.is_some()
    }

    /// Completes the message. The returned bytes count until their last reference is dropped.
    /// `rest` bytes of the next message have already arrived.
    #[must_use]
    pub fn finish(&mut self, message: Bytes, rest: usize) -> Bytes {
        self.close();
        if message.len() <= UNBUDGETED_BYTES {
            self.shrink_to(rest);
            return message;
        }
        let next = Hold::none(Arc::clone(self.hold.by()));
        let mut hold = std::mem::replace(&mut self.hold, next);
        // Nearly always held already.
        hold.set_whatever(message.len());
        counted(message, hold)
    }

    /// Releases the memory of the message, except for `rest` bytes.
    pub fn shrink_to(&mut self, rest: usize) {
        self.close();
        let keep = if rest <= UNBUDGETED_BYTES { 0 } else { rest };
        self.hold.shrink(self.hold.bytes().saturating_sub(keep));
    }

    fn close(&mut self) {
        if let Some(entry) = self.entry.take() {
            self.hold.by().readers.remove(&entry);
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.close();
    }
}

#[cfg(test)]
mod tests;

/// Size above which a message gets its own mapping.
const MAX_HEAP_MESSAGE: usize = 256 << 10;

/// A message that is arriving. Not counted in the budget: see [`crate::reader`].
#[derive(Default)]
pub struct Buffer {
    heap: BytesMut,
    pages: Option<Pages>,
    /// Maximum size of the message in bytes.
    max: usize,
}

struct Pages {
    memory: MmapMut,
    len: usize,
}

/// Bytes with a hold on the budget for as long as they exist.
struct Counted {
    bytes: Bytes,
    _hold: Hold,
}

impl Buffer {
    /// Creates a buffer for a message of at most `max` bytes, the size of its mapping.
    pub fn new(max: usize) -> Self {
        Self { heap: BytesMut::new(), pages: None, max }
    }

    pub fn len(&self) -> usize {
        match &self.pages {
            Some(pages) => pages.len,
            None => self.heap.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn extend(&mut self, bytes: &[u8]) {
        let end = self.len().saturating_add(bytes.len());
        if end > MAX_HEAP_MESSAGE && self.pages.is_none() && self.heap.capacity() < end {
            self.pages = Pages::with(&self.heap, self.max.max(end));
            if self.pages.is_some() {
                self.heap = BytesMut::new();
            }
        }
        match &mut self.pages {
            Some(pages) => pages.extend(bytes),
            None => self.heap.extend_from_slice(bytes),
        }
    }

    /// Removes and returns the message. The buffer is empty afterwards.
    #[must_use]
    pub fn take(&mut self) -> Bytes {
        match self.pages.take() {
            Some(pages) => Bytes::from_owner(pages),
            None => self.heap.split().freeze(),
        }
    }

    /// Returns the bytes received so far.
    pub fn as_slice(&self) -> &[u8] {
        self.pages.as_ref().map_or(&self.heap, |pages| pages.as_ref())
    }
}

impl Pages {
    /// Returns `None` if the system cannot map that many addresses.
    fn with(start: &[u8], max: usize) -> Option<Self> {
        let memory = MmapOptions::new().len(max).no_reserve_swap().map_anon().ok()?;
        // With transparent huge pages, a byte in each would make the whole mapping resident.
        let _ = memory.advise(memmap2::Advice::NoHugePage);
        let mut pages = Self { memory, len: 0 };
        pages.extend(start);
        Some(pages)
    }

    fn extend(&mut self, bytes: &[u8]) {
        let end = self.len.saturating_add(bytes.len());
        if self.memory.len() < end
            && let Some(larger) = Self::with(self.as_ref(), end.saturating_mul(2))
        {
            *self = larger;
        }
        if let Some(room) = self.memory.get_mut(self.len..end) {
            room.copy_from_slice(bytes);
            self.len = end;
        }
    }
}

impl AsRef<[u8]> for Pages {
    fn as_ref(&self) -> &[u8] {
        self.memory.get(..self.len).unwrap_or(&[])
    }
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Attaches a hold to bytes; it is released with the last reference to them.
#[must_use]
pub fn counted(bytes: Bytes, hold: Hold) -> Bytes {
    if hold.bytes() == 0 { bytes } else { Bytes::from_owner(Counted { bytes, _hold: hold }) }
}
