//! Admission: so many requests run at once, so many wait in line, one more is turned away.
//!
//! Taking and giving back a free place is one atomic step each. A place that is given back while somebody waits goes
//! to the longest waiting, so nobody overtakes.

use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Semaphore;

use crate::refusal::Refusal;

/// The places of one server. Running and waiting are counted in one word: waiting in the upper half.
pub(crate) struct Places {
    counts: AtomicU64,
    running_max: u64,
    waiting_max: u64,
    /// Places on their way from one who left to one who waits. It never holds any when nobody waits.
    handed: Semaphore,
}

const WAITING: u64 = 1 << 32;
const RUNNING: u64 = WAITING - 1;

/// A place that is taken until this is dropped. `P` is a borrow, or an `Arc` where it outlives the caller.
pub(crate) struct Place<P: Deref<Target = Places>>(P);

/// One who waits; leaves the line when dropped.
struct Waiting<'a> {
    places: &'a Places,
    served: bool,
}

impl Places {
    pub(crate) fn new(running: usize, waiting: usize) -> Self {
        let bounded = |n: usize| u64::from(u32::try_from(n).unwrap_or(u32::MAX / 2)).min(u64::from(u32::MAX / 2));
        Self {
            counts: AtomicU64::new(0),
            running_max: bounded(running).max(1),
            waiting_max: bounded(waiting),
            handed: Semaphore::new(0),
        }
    }

    /// A place, after waiting for one if there is room to wait.
    pub(crate) async fn enter<P: Deref<Target = Self>>(places: P) -> Result<Place<P>, Refusal> {
        if places.step_in()? {
            let mut waiting = Waiting { places: &places, served: false };
            match places.handed.acquire().await {
                Ok(permit) => permit.forget(),
                Err(_) => return Err(Refusal::Busy),
            }
            waiting.served = true;
        }
        Ok(Place(places))
    }

    /// Takes a free place, or else stands in line (`true`).
    fn step_in(&self) -> Result<bool, Refusal> {
        let step = |counts: u64| {
            if counts & RUNNING < self.running_max {
                Some(counts + 1)
            } else if counts / WAITING < self.waiting_max {
                Some(counts + WAITING)
            } else {
                None
            }
        };
        let before = self.counts.fetch_update(Ordering::AcqRel, Ordering::Relaxed, step).map_err(|_| Refusal::Busy)?;
        Ok(before & RUNNING >= self.running_max)
    }

    /// Gives a place back, or on to the next in line.
    fn step_out(&self) {
        let step = |counts: u64| Some(if counts >= WAITING { counts - WAITING } else { counts - 1 });
        if let Ok(before) = self.counts.fetch_update(Ordering::AcqRel, Ordering::Relaxed, step)
            && before >= WAITING
        {
            self.handed.add_permits(1);
        }
    }

    /// Leaves the line. If a place was already on its way to us, it is taken and passed on.
    fn leave(&self) {
        loop {
            let step = |counts: u64| (counts >= WAITING).then(|| counts - WAITING);
            if self.counts.fetch_update(Ordering::AcqRel, Ordering::Relaxed, step).is_ok() {
                return;
            }
            if let Ok(permit) = self.handed.try_acquire() {
                permit.forget();
                self.step_out();
                return;
            }
            // Between the two looks somebody came and took our place: they stand in line for it, so look again.
            std::hint::spin_loop();
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if !self.served {
            self.places.leave();
        }
    }
}

impl<P: Deref<Target = Places>> Drop for Place<P> {
    fn drop(&mut self) {
        self.0.step_out();
    }
}

#[cfg(test)]
mod tests;
