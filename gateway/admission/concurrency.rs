//! How many may run at once and how many may wait, fairly between organisations and between the
//! callers of one: places go round those that wait, not to whoever asks most, and a full queue
//! loses the newest of whoever has most in it.

mod bounds;
mod callers;
mod turns;
mod waiter;

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};

use crate::caller_id::CallerId;
use crate::hungry::{Hungry, Queue};
use crate::member::{Freed, Membership};
pub use bounds::{Bounds, Charge, ConcurrencyError};
use callers::Callers;
use turns::{RUNNING, Rules, State, WAITING};
use waiter::{Answer, Notice, Waiter};

/// Longest time that a refusal tells to wait.
const LONGEST_WAIT: Duration = Duration::from_secs(30);
/// How much of the mean time of a place is the newest one.
const NEWEST: f64 = 0.1;

/// See the module.
pub struct ConcurrencyLimit {
    rules: Rules,
    state: Mutex<State>,
    /// Somebody has begun to wait.
    wanted: Notify,
    itself: Weak<Self>,
}

/// A place that somebody is about to leave; drop it when that is done.
pub struct Promise<'a>(&'a ConcurrencyLimit);

/// A place that is taken until this is dropped.
pub struct Permit {
    limit: Arc<ConcurrencyLimit>,
    caller: CallerId,
    since: Instant,
}

impl ConcurrencyLimit {
    #[must_use]
    pub fn new(bounds: Bounds, charge: Charge, part: Option<Membership>) -> Arc<Self> {
        Arc::new_cyclic(|itself| Self {
            rules: Rules::new(bounds, charge, part),
            state: Mutex::new(State {
                running: 0,
                waiting: 0,
                callers: Callers::default(),
                tickets: 0,
                latest: None,
                changed: None,
                organisation_changed: None,
                full_since: None,
                held: 0.0,
                hungry: [false; 2],
                promised: 0,
            }),
            wanted: Notify::new(),
            itself: Weak::clone(itself),
        })
    }

    /// A place for `caller`, at once or after waiting for its turn. Dropping the future leaves the
    /// queue.
    ///
    /// # Errors
    /// [`ConcurrencyError`], at once or while it waits.
    pub async fn acquire(&self, caller: CallerId) -> Result<Permit, ConcurrencyError> {
        match self.enter(caller)? {
            Entered::Running(permit) => Ok(permit),
            // Boxed, so that a call that need not wait stays small.
            Entered::Waiting(waiting) => Box::pin(waiting.turn()).await,
        }
    }

    /// A place for `caller`, if it need not wait for one.
    #[must_use]
    pub fn try_acquire(&self, caller: CallerId) -> Option<Permit> {
        let now = Instant::now();
        let mut state = self.state.lock();
        state.meet(caller, now);
        // Who waits already comes first, so nobody overtakes.
        if state.waiting > 0 || !self.rules.begin(&mut state, caller, now) {
            return None;
        }
        state.full_since = None;
        drop(state);
        self.permit(caller, now).ok()
    }

    /// Who holds a place now.
    #[must_use]
    pub fn running(&self) -> usize {
        self.state.lock().running
    }

    /// Who waits now.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.state.lock().waiting
    }

    #[must_use]
    pub fn bounds(&self) -> Bounds {
        self.rules.bounds()
    }

    /// Other bounds, at once: who holds a place keeps it, and so does who waits.
    pub fn resize(&self, bounds: Bounds) {
        self.rules.resize(bounds);
        self.serve();
    }

    /// How long there has been no free place for those who wanted one.
    #[must_use]
    pub fn full_for(&self) -> Option<Duration> {
        let since = self.state.lock().full_since?;
        Some(since.elapsed())
    }

    /// When somebody who comes now may expect a place, by how long places were held so far; at
    /// least a second.
    #[must_use]
    pub fn expected_wait(&self) -> Duration {
        let state = self.state.lock();
        let turns = (state.waiting + 1) as f64 / self.rules.bounds().running as f64;
        let wait = Duration::try_from_secs_f64(turns * state.held).unwrap_or(LONGEST_WAIT);
        wait.clamp(Duration::from_secs(1), LONGEST_WAIT)
    }

    /// How long a place is held, on average; zero before the first was given back.
    #[must_use]
    pub fn usual_hold(&self) -> Duration {
        Duration::try_from_secs_f64(self.state.lock().held).unwrap_or_default()
    }

    /// Waits until somebody waits for a place, and promises one: of several who do, as many go on
    /// as places are wanted.
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
        let now = Instant::now();
        let mut state = self.state.lock();
        state.meet(caller, now);
        // Who waits already comes first, so nobody overtakes.
        if state.waiting == 0 && self.rules.begin(&mut state, caller, now) {
            state.full_since = None;
            return Ok(Entered::Running(self.permit(caller, now)?));
        }
        // Who is held back for others has not found the limit full.
        let places = self.rules.bounds().running;
        if state.running >= places || state.is_within_reach(caller, places, now) {
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
        // Others may wait for what they may not have, while this one may.
        self.serve();
        self.wanted.notify_one();
        Ok(Entered::Waiting(Waiting { limit: self, caller, ticket, answer: Some(receiver) }))
    }

    fn permit(&self, caller: CallerId, since: Instant) -> Result<Permit, ConcurrencyError> {
        // It cannot be gone while it is borrowed.
        let limit = self.itself.upgrade().ok_or(ConcurrencyError::Full)?;
        Ok(Permit { limit, caller, since })
    }

    /// Gives free places to those whose turn it is. `true` when there was one for somebody.
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
        // Who has left meanwhile does not take the place.
        if let Err(Ok(())) = to.send(answer) {
            self.release(caller, Instant::now());
        }
    }

    /// A place is given back.
    fn release(&self, caller: CallerId, since: Instant) {
        let seconds = since.elapsed().as_secs_f64();
        let mut state = self.state.lock();
        let expected = state.held;
        let weight = if expected == 0.0 { 1.0 } else { NEWEST };
        state.held += (seconds - expected) * weight;
        state.running -= 1;
        let more = if self.rules.charge == Charge::Time { seconds - expected } else { 0.0 };
        state.callers.end(caller, more);
        let freed = self.rules.unlend(RUNNING);
        if state.waiting == 0 {
            state.full_since = None;
        }
        drop(state);
        if !self.serve()
            && let Some((part, freed)) = self.rules.part.as_ref().zip(freed)
        {
            part.running.wake(match freed {
                Freed::Common => Queue::Common,
                Freed::Own => Queue::Own,
            });
        }
    }
}

impl Hungry for ConcurrencyLimit {
    fn try_again(&self, queue: Queue) {
        self.state.lock().hungry[queue as usize] = false;
        let served = self.serve();
        let hungry = self.state.lock().hungry[queue as usize];
        match &self.rules.part {
            // Not needed here: somebody else may want it. Who is still hungry has found nothing.
            Some(part) if !served && !hungry => part.running.wake(queue),
            _ => {}
        }
    }
}

enum Entered<'a> {
    Running(Permit),
    Waiting(Waiting<'a>),
}

/// One who waits; leaves the queue when dropped.
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
        self.limit.permit(self.caller, Instant::now())
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let Some(mut answer) = self.answer.take() else { return };
        let mut state = self.limit.state.lock();
        if state.callers.leave(self.caller, self.ticket) {
            state.waiting -= 1;
            self.limit.rules.unlend(WAITING);
            return;
        }
        drop(state);
        // The answer is on its way. Either it is here already, or its sender finds that nobody
        // waits.
        answer.close();
        if let Ok(Ok(())) = answer.try_recv() {
            self.limit.release(self.caller, Instant::now());
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
