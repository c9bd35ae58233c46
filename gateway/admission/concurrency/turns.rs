//! Whose turn it is, and what it takes: a place of the limit's own share or one of the pool's, room
//! in the queue. All of it happens under the limit's lock, and nobody is woken here.

use std::sync::Weak;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::bounds::{Bounds, Charge, ConcurrencyError};
use super::callers::{Callers, Reach};
use super::waiter::Notice;
use crate::caller_id::CallerId;
use crate::hungry::Hungry;
use crate::member::{Freed, Membership};

/// While a second caller was seen within this time, no caller may take the last places.
const CONTENDED: Duration = Duration::from_secs(60);
/// The same for organisations. One that comes seldom finds a place, too.
const CONTENDED_BY_ORGANISATIONS: Duration = Duration::from_secs(600);
/// One caller, and one organisation, may hold this many times what is left free: of 32 places at
/// most 28.
const REACH: usize = 7;

pub(super) struct State {
    pub(super) running: usize,
    pub(super) waiting: usize,
    pub(super) callers: Callers,
    pub(super) tickets: u64,
    /// Who came last.
    pub(super) latest: Option<CallerId>,
    /// When another caller than the one before came last.
    pub(super) changed: Option<Instant>,
    /// When one of another organisation than the one before came last.
    pub(super) organisation_changed: Option<Instant>,
    /// Since when somebody had to wait or was refused, without a place having been free meanwhile.
    pub(super) full_since: Option<Instant>,
    /// Seconds that a place is held, on average.
    pub(super) held: f64,
    /// Noted as waiting for what other limits hold, in each queue for that.
    pub(super) hungry: [bool; 2],
    /// Places that are about to be left for those who wait.
    pub(super) promised: usize,
}

pub(super) const RUNNING: usize = 0;
pub(super) const WAITING: usize = 1;

impl State {
    /// Notes who asks for a place.
    pub(super) fn meet(&mut self, caller: CallerId, now: Instant) {
        let Some(latest) = self.latest.replace(caller) else { return };
        if latest != caller {
            self.changed = Some(now);
        }
        if latest.organisation != caller.organisation {
            self.organisation_changed = Some(now);
        }
    }

    /// Whether a caller may have another place of those that are free, if any are.
    pub(super) fn is_within_reach(&self, caller: CallerId, places: usize, now: Instant) -> bool {
        let reach = self.reach(places.saturating_sub(self.running), now);
        self.callers.is_within(reach, caller)
    }

    /// How many places each may hold and still get another one. While there are others, the last
    /// places are for those who hold few.
    fn reach(&self, free: usize, now: Instant) -> Reach {
        let mut reach = Reach { of_caller: usize::MAX, of_organisation: usize::MAX };
        if is_recent(self.changed, CONTENDED, now) {
            reach.of_caller = REACH * free;
        }
        if is_recent(self.organisation_changed, CONTENDED_BY_ORGANISATIONS, now) {
            reach.of_organisation = REACH * free;
        }
        reach
    }
}

/// By what a limit gives its places.
pub(super) struct Rules {
    running: AtomicUsize,
    waiting: AtomicUsize,
    pub(super) charge: Charge,
    pub(super) part: Option<Membership>,
}

fn is_recent(changed: Option<Instant>, longest: Duration, now: Instant) -> bool {
    changed.is_some_and(|changed| now.saturating_duration_since(changed) < longest)
}

impl Rules {
    pub(super) fn new(bounds: Bounds, charge: Charge, part: Option<Membership>) -> Self {
        let rules =
            Self { running: AtomicUsize::new(1), waiting: AtomicUsize::new(0), charge, part };
        rules.resize(bounds);
        rules
    }

    /// Other bounds. Who holds a place or waits keeps that.
    pub(super) fn resize(&self, bounds: Bounds) {
        self.running.store(bounds.running.max(1), Ordering::Relaxed);
        self.waiting.store(bounds.waiting, Ordering::Relaxed);
    }

    pub(super) fn bounds(&self) -> Bounds {
        Bounds {
            running: self.running.load(Ordering::Relaxed),
            waiting: self.waiting.load(Ordering::Relaxed),
        }
    }

    /// Takes a place for a caller, if there is one that it may have.
    pub(super) fn begin(&self, state: &mut State, caller: CallerId, now: Instant) -> bool {
        let free = self.bounds().running.saturating_sub(state.running);
        if free == 0
            || !state.callers.is_within(state.reach(free, now), caller)
            || !self.lend(RUNNING)
        {
            return false;
        }
        state.running += 1;
        let expected = state.held;
        let cost = match self.charge {
            Charge::Turns => 1.0,
            Charge::Time => expected,
        };
        state.callers.begin(caller, cost);
        true
    }

    /// A place of the pool, where the limit takes part in one.
    fn lend(&self, what: usize) -> bool {
        match &self.part {
            Some(part) if what == RUNNING => part.running.take(),
            Some(part) => part.waiting.take(),
            None => true,
        }
    }

    /// Says what the pool has again.
    pub(super) fn unlend(&self, what: usize) -> Option<Freed> {
        let part = self.part.as_ref()?;
        let member = if what == RUNNING { &part.running } else { &part.waiting };
        Some(member.give_back())
    }

    /// Room for one more in the queue, for which somebody leaves who has more in it than the
    /// newcomer would have ([`Callers::find_displaced`]).
    pub(super) fn make_room(
        &self,
        state: &mut State,
        caller: CallerId,
    ) -> Result<Option<Notice>, ConcurrencyError> {
        let refused = if state.waiting >= self.bounds().waiting {
            ConcurrencyError::Full
        } else if self.lend(WAITING) {
            return Ok(None);
        } else {
            ConcurrencyError::PoolFull
        };
        let longest = state.callers.find_displaced(caller).ok_or(refused)?;
        let waiter = state.callers.pop_newest(longest).ok_or(refused)?;
        state.waiting -= 1;
        // The newcomer takes over what the other one had borrowed.
        Ok(Some(Notice {
            caller: longest,
            to: waiter.answer,
            answer: Err(ConcurrencyError::Displaced),
        }))
    }

    /// Gives a free place to the caller whose turn it is. `limit` is whose rules these are: where
    /// only the pool is in the way, the pool wakes it.
    pub(super) fn next<L: Hungry + 'static>(
        &self,
        state: &mut State,
        limit: &Weak<L>,
    ) -> Option<Notice> {
        let free = self.bounds().running.saturating_sub(state.running);
        if state.waiting == 0 || free == 0 {
            return None;
        }
        let now = Instant::now();
        let Some(caller) = state.callers.next(state.reach(free, now)) else {
            // Whoever waits is held back for others, who find places free.
            state.full_since = None;
            return None;
        };
        if !self.begin(state, caller, now) {
            self.note_hungry(state, limit);
            // A place may have been given back before it was noted.
            if !self.begin(state, caller, now) {
                return None;
            }
        }
        let waiter = state.callers.pop_oldest(caller)?;
        state.waiting -= 1;
        self.unlend(WAITING);
        Some(Notice { caller, to: waiter.answer, answer: Ok(()) })
    }

    /// Only the pool is in the way: it says when there is more.
    fn note_hungry<L: Hungry + 'static>(&self, state: &mut State, limit: &Weak<L>) {
        let Some(part) = &self.part else { return };
        for &queue in part.running.queues() {
            let is_noted = &mut state.hungry[queue as usize];
            if !std::mem::replace(is_noted, true) {
                let limit: Weak<L> = Weak::clone(limit);
                part.running.wait(queue, limit);
            }
        }
    }
}
