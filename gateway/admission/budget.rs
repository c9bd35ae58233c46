//! The account of bytes in flight: messages while they come in, while they are worked on and until
//! somebody has taken them. One atomic step takes a part or gives it back. `reader` says who waits,
//! and who has to go, when it is full.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::readers::Readers;

/// The memory that everything in flight may take together.
pub struct Budget {
    used: AtomicUsize,
    all: AtomicUsize,
    refused: AtomicU64,
    pub(crate) readers: Readers,
}

/// A part of a budget, given back when dropped.
pub struct Hold<P: AsRef<Budget> = Arc<Budget>> {
    budget: P,
    bytes: usize,
}

/// What a client reads in place of an answer that there is no memory for. The call behind it was
/// made.
pub const DROPPED: &str = "the answer was dropped, because it is larger than what \
    limits.bytes_in_flight leaves beside \
                           answers that other clients have not read; what was called may have had \
                           its effect";

/// Messages up to this size are always taken: their number is bounded, and somebody may wait for
/// them.
pub const SMALL: usize = 4 * 1024;

/// Messages up to this size have a part of the memory, beside the whole account, that larger ones
/// cannot take.
pub const MEDIUM: usize = 64 * 1024;

/// The part for messages up to [`MEDIUM`] is the account divided by this.
const PART_FOR_MEDIUM: usize = 16;

/// There is not that much left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

impl Budget {
    /// `all` in bytes.
    #[must_use]
    pub fn new(all: usize) -> Self {
        Self {
            used: AtomicUsize::new(0),
            all: AtomicUsize::new(all),
            refused: AtomicU64::new(0),
            readers: Readers::default(),
        }
    }

    /// The bytes that large messages may take together.
    #[must_use]
    pub fn limit(&self) -> usize {
        self.all.load(Ordering::Relaxed)
    }

    /// Messages that were refused or dropped because the account was full.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    pub(crate) fn count_refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// What may be held in all once a message that is `bytes` long is taken.
    fn limit_for(&self, bytes: usize) -> usize {
        let all = self.limit();
        if bytes > MEDIUM { all } else { all.saturating_add(all / PART_FOR_MEDIUM) }
    }

    /// Another size. What is held already stays.
    pub fn resize(&self, all: usize) {
        self.all.store(all, Ordering::Relaxed);
    }

    /// Bytes that are held now.
    #[must_use]
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// More than half is held: what can be done without has to go.
    #[must_use]
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
        match taken {
            Ok(_) => Ok(()),
            Err(_) => Err(Full),
        }
    }
}

impl<P: AsRef<Budget>> Hold<P> {
    /// Nothing yet.
    pub const fn none(budget: P) -> Self {
        Self { budget, bytes: 0 }
    }

    /// Takes more.
    ///
    /// # Errors
    /// [`Full`]: nothing was taken.
    pub fn grow(&mut self, bytes: usize) -> Result<(), Full> {
        let budget = self.budget.as_ref();
        budget.take(bytes, budget.limit())?;
        self.bytes += bytes;
        Ok(())
    }

    /// Takes what is missing to `total` for one message that is so long.
    ///
    /// # Errors
    /// [`Full`]: nothing was taken.
    pub(crate) fn reserve(&mut self, total: usize) -> Result<(), Full> {
        let budget = self.budget.as_ref();
        let more = total.saturating_sub(self.bytes);
        budget.take(more, budget.limit_for(total))?;
        self.bytes += more;
        Ok(())
    }

    /// Holds exactly this much from now on, whatever is left: the bytes are there.
    pub(crate) fn set_whatever(&mut self, bytes: usize) {
        match bytes.checked_sub(self.bytes) {
            Some(more) => {
                self.budget.as_ref().used.fetch_add(more, Ordering::Relaxed);
                self.bytes = bytes;
            }
            None => self.shrink(self.bytes - bytes),
        }
    }

    /// What is held.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes more for something that can be done without: it leaves half of the budget to others.
    ///
    /// # Errors
    /// [`Full`]: nothing was taken.
    pub fn grow_spare(&mut self, bytes: usize) -> Result<(), Full> {
        let budget = self.budget.as_ref();
        budget.take(bytes, budget.half())?;
        self.bytes += bytes;
        Ok(())
    }

    /// Takes a message on its way: a small one whatever is left.
    ///
    /// # Errors
    /// [`Full`]: nothing was taken.
    pub fn admit(&mut self, bytes: usize) -> Result<(), Full> {
        if bytes > SMALL {
            let taken = self.reserve(self.bytes.saturating_add(bytes));
            return taken.inspect_err(|_| self.budget.as_ref().count_refused());
        }
        self.budget.as_ref().used.fetch_add(bytes, Ordering::Relaxed);
        self.bytes += bytes;
        Ok(())
    }

    /// Gives some back.
    pub fn shrink(&mut self, bytes: usize) {
        let bytes = bytes.min(self.bytes);
        if bytes > 0 {
            self.bytes -= bytes;
            let budget = self.budget.as_ref();
            budget.used.fetch_sub(bytes, Ordering::Relaxed);
            budget.readers.wake();
        }
    }

    /// Holds exactly this much from now on: a message on its way to a client.
    ///
    /// # Errors
    /// [`Full`]: it holds what it held before.
    pub fn set(&mut self, bytes: usize) -> Result<(), Full> {
        match bytes.checked_sub(self.bytes) {
            Some(more) if bytes <= SMALL || more > SMALL => self.admit(more),
            Some(_) => self.reserve(bytes),
            None => {
                self.shrink(self.bytes - bytes);
                Ok(())
            }
        }
    }

    /// What the budget is reached by.
    pub const fn by(&self) -> &P {
        &self.budget
    }
}

impl<P: AsRef<Budget>> Drop for Hold<P> {
    fn drop(&mut self) {
        self.shrink(self.bytes);
    }
}

#[cfg(test)]
mod tests;
