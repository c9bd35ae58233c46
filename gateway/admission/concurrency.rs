//! A concurrency limit with a queue, fair between organisations and between the callers of each:
//! permits rotate among the waiting callers, regardless of the number of their requests. A full
//! queue drops the newest entry of the caller with the most entries.

mod callers;

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};

use crate::caller_id::CallerId;
use crate::clock;
use crate::concurrency::callers::{Rules, TurnsState};
use crate::pool::{Membership, PoolWaiter, Queue};
use callers::{Answer, Notice, Waiter};

pub use callers::{Bounds, Charge, ConcurrencyError};

/// Maximum wait reported in a refusal.
const MAX_WAIT: Duration = Duration::from_secs(30);
/// Weight of the latest sample in the moving average of hold times.
const LATEST_SAMPLE_WEIGHT: f64 = 0.1;

/// A fair concurrency limit with a bounded queue.
pub struct ConcurrencyLimit {
    rules: Rules,
    state: Mutex<TurnsState>,
    /// Signals that a caller has begun to wait.
    wanted: Notify,
    itself: Weak<Self>,
}

/// A promise to release a permit; drop it once the permit has been released.
pub struct Promise<'a>(&'a ConcurrencyLimit);

/// A permit, returned on drop.
pub struct Permit {
    limit: Arc<ConcurrencyLimit>,
    caller: CallerId,
    since: Instant,
}

impl ConcurrencyLimit {
    pub fn new(bounds: Bounds, charge: Charge, part: Option<Membership>) -> Arc<Self> {
        let mut state = TurnsState::default();
        state.resize(bounds);
        Arc::new_cyclic(|itself| Self {
            rules: Rules { charge, part },
            state: Mutex::new(state),
            wanted: Notify::new(),
            itself: Weak::clone(itself),
        })
    }

    /// Acquires a permit for `caller`, waiting for its turn if necessary. Dropping the future
    /// leaves the queue.
    ///
    /// # Errors
    /// [`ConcurrencyError`], at once or while waiting.
    pub async fn acquire(&self, caller: CallerId) -> Result<Permit, ConcurrencyError> {
        match self.enter(caller)? {
            Entered::Running(permit) => Ok(permit),
            // Boxed to keep the future of a call that need not wait small.
            Entered::Waiting(waiting) => Box::pin(waiting.turn()).await,
        }
    }

    /// Acquires a permit for `caller` if that requires no waiting.
    #[must_use]
    pub fn try_acquire(&self, caller: CallerId) -> Option<Permit> {
        let now = clock::now();
        if !self.begin(&mut self.state.lock(), caller, now) {
            return None;
        }
        self.permit(caller, now).ok()
    }

    /// Takes a permit for a caller that has arrived. Waiting callers come first.
    fn begin(&self, state: &mut TurnsState, caller: CallerId, now: Instant) -> bool {
        state.meet(caller, now);
        let is_begun = state.waiting == 0 && self.rules.begin(state, caller, now);
        if is_begun {
            state.full_since = None;
        }
        is_begun
    }

    /// Returns the number of permits held.
    pub fn running(&self) -> usize {
        self.state.lock().running
    }

    /// Returns the number of waiting callers.
    pub fn waiting(&self) -> usize {
        self.state.lock().waiting
    }

    pub fn bounds(&self) -> Bounds {
        self.state.lock().bounds
    }

    /// Sets the bounds. Permits and queue entries are kept.
    pub fn resize(&self, bounds: Bounds) {
        self.state.lock().resize(bounds);
        self.serve();
    }

    /// Returns how long callers have been waiting without a free permit.
    pub fn full_for(&self) -> Option<Duration> {
        let since = self.state.lock().full_since?;
        Some(since.elapsed())
    }

    /// Returns the wait that a new caller should expect, estimated from past hold times and at
    /// least a second.
    pub fn expected_wait(&self) -> Duration {
        let state = self.state.lock();
        let turns = (state.waiting + 1) as f64 / state.bounds.running as f64;
        let wait = Duration::try_from_secs_f64(turns * state.held).unwrap_or(MAX_WAIT);
        wait.clamp(Duration::from_secs(1), MAX_WAIT)
    }

    /// Returns the average time that a permit is held, zero before the first was returned.
    pub fn usual_hold(&self) -> Duration {
        Duration::try_from_secs_f64(self.state.lock().held).unwrap_or_default()
    }

    /// Waits until a caller waits for a permit, and promises to release one. At most as many
    /// promises are given out as there are waiting callers.
    pub async fn wanted(&self) -> Promise<'_> {
        loop {
            {
                let mut state = self.state.lock();
                if state.waiting > state.promised {
                    state.promised += 1;
                    return Promise(self);
                }
            }
            self.wanted.notified().await;
        }
    }

    fn enter(&self, caller: CallerId) -> Result<Entered<'_>, ConcurrencyError> {
        let now = clock::now();
        let mut state = self.state.lock();
        if self.begin(&mut state, caller, now) {
            return Ok(Entered::Running(self.permit(caller, now)?));
        }
        // A caller that is waiting for its fair share does not count as hitting the limit.
        if state.running >= state.bounds.running || state.is_within_reach(caller, now) {
            state.full_since.get_or_insert(now);
        }
        let displaced = self.rules.make_room(&mut state, caller)?;
        state.tickets += 1;
        state.waiting += 1;
        let ticket = state.tickets;
        let (sender, receiver) = oneshot::channel();
        state.callers.push(caller, Waiter { ticket, answer: sender });
        drop(state);
        self.send(displaced);
        // Waiting callers may be held back where this one is not.
        self.serve();
        self.wanted.notify_one();
        Ok(Entered::Waiting(Waiting { limit: self, caller, ticket, answer: Some(receiver) }))
    }

    fn permit(&self, caller: CallerId, since: Instant) -> Result<Permit, ConcurrencyError> {
        // Cannot fail, because `self` is borrowed from its `Arc`.
        let limit = self.itself.upgrade().ok_or(ConcurrencyError::Full)?;
        Ok(Permit { limit, caller, since })
    }

    /// Grants free permits to waiting callers in turn. Returns whether any was granted.
    fn serve(&self) -> bool {
        let mut served = false;
        loop {
            let notice = self.rules.next(&mut self.state.lock(), &self.itself);
            if notice.is_none() {
                return served;
            }
            served = true;
            self.send(notice);
        }
    }

    fn send(&self, notice: Option<Notice>) {
        let Some(Notice { caller, to, answer }) = notice else { return };
        // A waiter that has left does not take the permit.
        if let Err(Ok(())) = to.send(answer) {
            self.release(caller, clock::now());
        }
    }

    /// Returns a permit and grants it to the next caller.
    fn release(&self, caller: CallerId, since: Instant) {
        let seconds = clock::elapsed(since).as_secs_f64();
        let mut state = self.state.lock();
        let expected = state.held;
        let weight = if expected == 0.0 { 1.0 } else { LATEST_SAMPLE_WEIGHT };
        state.held += (seconds - expected) * weight;
        state.running -= 1;
        let more = if self.rules.charge == Charge::Time { seconds - expected } else { 0.0 };
        state.callers.end(caller, more);
        let freed = self.rules.part.as_ref().map(|part| (part, part.running.give_back()));
        if state.waiting == 0 {
            state.full_since = None;
        }
        drop(state);
        if !self.serve()
            && let Some((part, freed)) = freed
        {
            part.running.wake(freed);
        }
    }
}

impl PoolWaiter for ConcurrencyLimit {
    fn try_again(&self, queue: Queue) {
        self.state.lock().waits_for_pool[queue as usize] = false;
        let served = self.serve();
        let waits_for_pool = self.state.lock().waits_for_pool[queue as usize];
        match &self.rules.part {
            // Not needed here, so offer the free permit to other limits. If still waiting, there
            // was none.
            Some(part) if !served && !waits_for_pool => part.running.wake(queue),
            _ => {}
        }
    }
}

enum Entered<'a> {
    Running(Permit),
    Waiting(Waiting<'a>),
}

/// A queue entry, removed on drop.
struct Waiting<'a> {
    limit: &'a ConcurrencyLimit,
    caller: CallerId,
    ticket: u64,
    answer: Option<oneshot::Receiver<Answer>>,
}

impl Waiting<'_> {
    async fn turn(mut self) -> Result<Permit, ConcurrencyError> {
        let answer = match &mut self.answer {
            Some(answer) => answer.await,
            None => Ok(Err(ConcurrencyError::Full)),
        };
        self.answer = None;
        answer.unwrap_or(Err(ConcurrencyError::Full))?;
        self.limit.permit(self.caller, clock::now())
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let Some(mut answer) = self.answer.take() else { return };
        let mut state = self.limit.state.lock();
        if state.callers.leave(self.caller, self.ticket) {
            state.waiting -= 1;
            self.limit.rules.end_wait();
            return;
        }
        drop(state);
        // The answer was sent already, or its sender will find the channel closed.
        answer.close();
        if let Ok(Ok(())) = answer.try_recv() {
            self.limit.release(self.caller, clock::now());
        }
    }
}

impl Drop for Promise<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.promised -= 1;
        let more = state.waiting > state.promised;
        drop(state);
        if more {
            self.0.wanted.notify_one();
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.limit.release(self.caller, self.since);
    }
}

#[cfg(test)]
mod tests;
