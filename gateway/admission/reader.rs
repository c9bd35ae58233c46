//! Whoever reads a message takes its memory from the account as the bytes come in. When the account is full it waits, which
//! holds up whoever sends; after a bounded time the one that holds the most has to go, so that the others go on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::budget::{Budget, Hold, MEDIUM};
use crate::buffer::counted;

/// The first bytes of every message are read without the account: most messages end there.
pub const FREE: usize = 16 << 10;
/// What is taken at once.
const STEP: usize = 64 << 10;
/// How long a large message waits for room before the one that holds the most has to go.
pub const PATIENCE: Duration = Duration::from_secs(1);
/// How long others wait for that.
const LITTLE_PATIENCE: Duration = Duration::from_millis(100);
/// How often one that waits looks.
const LOOK: Duration = Duration::from_millis(25);

/// The account is full, and this message has to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoMemory;

/// A message that is being read, and what it holds.
pub struct Reader {
    hold: Hold,
    /// Known to all from [`MEDIUM`] on.
    entry: Option<Arc<Entry>>,
}

/// Those who read large messages.
#[derive(Default)]
pub(crate) struct Readers {
    state: Mutex<State>,
    /// How many wait for room.
    waiting: AtomicUsize,
    room: Notify,
}

#[derive(Default)]
struct State {
    open: Vec<Arc<Entry>>,
    /// When the last one had to go: its memory takes a moment to come back.
    told: Option<Instant>,
}

struct Entry {
    bytes: AtomicUsize,
    has_to_go: AtomicBool,
    told: Notify,
}

impl Readers {
    /// Some memory was given back.
    pub(crate) fn wake(&self) {
        if self.waiting.load(Ordering::Relaxed) > 0 {
            self.room.notify_waiters();
        }
    }

    fn add(&self) -> Arc<Entry> {
        let entry =
            Arc::new(Entry { bytes: AtomicUsize::new(0), has_to_go: AtomicBool::new(false), told: Notify::new() });
        self.state.lock().open.push(Arc::clone(&entry));
        entry
    }

    fn remove(&self, entry: &Arc<Entry>) {
        let mut state = self.state.lock();
        if let Some(at) = state.open.iter().position(|open| Arc::ptr_eq(open, entry)) {
            state.open.swap_remove(at);
        }
    }

    /// Tells the one that holds the most to go, unless one was told just now. False when that is whoever asks, who wants
    /// `total` bytes, or when there is nobody.
    fn tell_largest(&self, total: usize) -> bool {
        let mut state = self.state.lock();
        let now = Instant::now();
        if state.told.is_some_and(|told| now.duration_since(told) < LOOK) {
            return true;
        }
        let stays = |entry: &&Arc<Entry>| !entry.has_to_go.load(Ordering::Relaxed);
        let largest = state.open.iter().filter(stays).max_by_key(|entry| entry.bytes.load(Ordering::Relaxed));
        let Some(largest) = largest.filter(|entry| entry.bytes.load(Ordering::Relaxed) >= total) else {
            return false;
        };
        largest.has_to_go.store(true, Ordering::Release);
        largest.told.notify_one();
        state.told = Some(now);
        true
    }
}

impl Reader {
    /// Nothing was read yet.
    #[must_use]
    pub fn new(budget: &Arc<Budget>) -> Self {
        Self { hold: Hold::none(Arc::clone(budget)), entry: None }
    }

    /// Makes sure that the memory for a message of `total` bytes so far is held. Waits for it, which is bounded. Cancel safe.
    ///
    /// # Errors
    /// [`NoMemory`]: this message has to go.
    pub async fn hold(&mut self, total: usize) -> Result<(), NoMemory> {
        if self.has_to_go() {
            return self.give_up();
        }
        if total <= self.hold.bytes().max(FREE) {
            return Ok(());
        }
        // A step at once, as far as there is one.
        if self.reserve(total.next_multiple_of(STEP)) || self.reserve(total) {
            return Ok(());
        }
        Box::pin(self.wait(total)).await
    }

    async fn wait(&mut self, total: usize) -> Result<(), NoMemory> {
        let budget = Arc::clone(self.hold.by());
        if total > MEDIUM && total > budget.limit() {
            return self.give_up();
        }
        let readers = &budget.readers;
        let _waits = Waits::begin(&readers.waiting);
        let patience = if total > MEDIUM { PATIENCE } else { LITTLE_PATIENCE };
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
            if waited >= patience && !readers.tell_largest(total) && waited >= PATIENCE {
                return self.give_up();
            }
            let _ = tokio::time::timeout(LOOK, room).await;
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
        if total > MEDIUM {
            let budget = self.hold.by();
            let entry = self.entry.get_or_insert_with(|| budget.readers.add());
            entry.bytes.store(total, Ordering::Relaxed);
        }
        true
    }

    fn has_to_go(&self) -> bool {
        self.entry.as_ref().is_some_and(|entry| entry.has_to_go.load(Ordering::Acquire))
    }

    /// Ready when this message has to go: to be awaited beside the bytes that come next.
    pub async fn told(&self) -> NoMemory {
        let Some(entry) = &self.entry else { return std::future::pending().await };
        while !self.has_to_go() {
            entry.told.notified().await;
        }
        self.hold.by().count_refused();
        NoMemory
    }

    /// Whether [`Self::told`] can ever be ready.
    #[must_use]
    pub fn is_known(&self) -> bool {
        self.entry.is_some()
    }

    /// The message is there: the same bytes, which count until the last part of them is gone. What is read next begins
    /// with `rest` bytes that have come already.
    #[must_use]
    pub fn finish(&mut self, message: Bytes, rest: usize) -> Bytes {
        self.close();
        if message.len() <= FREE {
            self.shrink_to(rest);
            return message;
        }
        let next = Hold::none(Arc::clone(self.hold.by()));
        let mut hold = std::mem::replace(&mut self.hold, next);
        // Nearly always held already.
        hold.set_whatever(message.len());
        counted(message, hold)
    }

    /// What was read is gone, but for `rest` bytes.
    pub fn shrink_to(&mut self, rest: usize) {
        self.close();
        let keep = if rest <= FREE { 0 } else { rest };
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

/// Counts one that waits.
struct Waits<'a>(&'a AtomicUsize);

impl<'a> Waits<'a> {
    fn begin(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
