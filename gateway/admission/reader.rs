//! Whoever reads a message takes its memory from the account as the bytes come in. When the account
//! is full it waits, which holds up whoever sends; after a bounded time the one that holds the most
//! has to go, so that the others go on.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use crate::budget::{Budget, Hold, MEDIUM};
use crate::buffer::counted;
use crate::readers::{Entry, LOOK, Waits};

/// The first bytes of every message are read without the account: most messages end there.
pub const FREE: usize = 16 << 10;
/// What is taken at once.
const STEP: usize = 64 << 10;
/// How long a large message waits for room before the one that holds the most has to go.
pub const TIMEOUT: Duration = Duration::from_secs(1);
/// How long others wait for that.
const SHORT_TIMEOUT: Duration = Duration::from_millis(100);

/// The account is full, and this message has to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoMemory;

/// A message that is being read, and what it holds.
pub struct Reader {
    hold: Hold,
    /// Known to all from [`MEDIUM`] on.
    entry: Option<Arc<Entry>>,
}

impl Reader {
    /// Nothing was read yet.
    #[must_use]
    pub fn new(budget: &Arc<Budget>) -> Self {
        Self { hold: Hold::none(Arc::clone(budget)), entry: None }
    }

    /// Makes sure that the memory for a message of `total` bytes so far is held. Waits for it,
    /// which is bounded. Cancel safe.
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
        let timeout = if total > MEDIUM { TIMEOUT } else { SHORT_TIMEOUT };
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
            if waited >= timeout && !readers.tell_largest(total) && waited >= TIMEOUT {
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

    /// The message is there: the same bytes, which count until the last part of them is gone. What
    /// is read next begins with `rest` bytes that have come already.
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

#[cfg(test)]
mod tests;
