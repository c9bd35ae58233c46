//! The account of bytes in flight: request bodies while they are worked on, answers and messages until their client has
//! taken them. One atomic step takes a part or gives it back. It decides nothing about whose turn it is.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The memory that everything in flight may take together.
pub struct Budget {
    used: AtomicUsize,
    all: AtomicUsize,
}

/// A part of a budget, given back when dropped.
pub struct Hold<P: AsRef<Budget> = Arc<Budget>> {
    budget: P,
    bytes: usize,
}

/// What a client reads in place of an answer that there is no memory for. The call behind it was made.
pub const DROPPED: &str = "the answer was dropped, because it is larger than what limits.bytes_in_flight leaves beside \
                           answers that other clients have not read; what was called may have had its effect";

/// Messages up to this size are always taken: their number is bounded, and somebody may wait for them.
pub const SMALL: usize = 4 * 1024;

/// There is not that much left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

impl Budget {
    /// `all` in bytes.
    #[must_use]
    pub fn new(all: usize) -> Self {
        Self { used: AtomicUsize::new(0), all: AtomicUsize::new(all) }
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
        self.all.load(Ordering::Relaxed) / 2
    }

    fn take(&self, bytes: usize, all: usize) -> Result<(), Full> {
        if bytes == 0 {
            return Ok(());
        }
        let more = |used: usize| used.checked_add(bytes).filter(|used| *used <= all);
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).map(drop).map_err(|_| Full)
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
        budget.take(bytes, budget.all.load(Ordering::Relaxed))?;
        self.bytes += bytes;
        Ok(())
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

    /// Takes a message on its way to a client: a small one whatever is left.
    ///
    /// # Errors
    /// [`Full`]: nothing was taken.
    pub fn admit(&mut self, bytes: usize) -> Result<(), Full> {
        if bytes > SMALL {
            return self.grow(bytes);
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
            self.budget.as_ref().used.fetch_sub(bytes, Ordering::Relaxed);
        }
    }

    /// Holds exactly this much from now on: a message on its way to a client.
    ///
    /// # Errors
    /// [`Full`]: it holds what it held before.
    pub fn set(&mut self, bytes: usize) -> Result<(), Full> {
        match bytes.checked_sub(self.bytes) {
            Some(more) if bytes > SMALL => self.grow(more),
            Some(more) => self.admit(more),
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
