//! The allocation of permits and queue entries, from the limit's share or its pool. Everything here
//! runs under the limit's lock, and no task is woken.

use std::sync::Weak;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::bounds::{Bounds, Charge, ConcurrencyError, Notice};
use super::callers::{Callers, Reach};
use crate::caller_id::CallerId;
use crate::member::{Freed, Membership};
use crate::pool_waiter::PoolWaiter;

/// While two callers were seen within this time, the last permits are reserved for callers that
/// hold few.
const CONTENTION_WINDOW: Duration = Duration::from_secs(60);
/// The same for organisations; longer, so that rare callers find a permit, too.
const ORGANISATION_CONTENTION_WINDOW: Duration = Duration::from_secs(600);
/// Maximum permits of a caller or organisation, as a multiple of the free permits: 28 of 32.
const MAX_SHARE_FACTOR: usize = 7;

pub(super) struct TurnsState {
    pub(super) running: usize,
    pub(super) waiting: usize,
    pub(super) callers: Callers,
    pub(super) tickets: u64,
    pub(super) latest: Option<CallerId>,
    /// When the latest caller last changed.
    pub(super) changed: Option<Instant>,
    /// When the latest caller's organisation last changed.
    pub(super) organisation_changed: Option<Instant>,
    /// Since when callers wait or are refused, without a free permit in between.
    pub(super) full_since: Option<Instant>,
    /// Average seconds that a permit is held.
    pub(super) held: f64,
    /// Set while registered as waiting for the pool, per queue.
    pub(super) waits_for_pool: [bool; 2],
    /// Permits that are about to be released for waiting callers.
    pub(super) promised: usize,
}

pub(super) const RUNNING: usize = 0;
pub(super) const WAITING: usize = 1;

impl TurnsState {
    /// Records the arrival of a caller.
    pub(super) fn meet(&mut self, caller: CallerId, now: Instant) {
        let Some(latest) = self.latest.replace(caller) else { return };
        if latest != caller {
            self.changed = Some(now);
        }
        if latest.organisation != caller.organisation {
            self.organisation_changed = Some(now);
        }
    }

    /// Returns whether a caller may take a permit of those that are free.
    pub(super) fn is_within_reach(&self, caller: CallerId, places: usize, now: Instant) -> bool {
        let reach = self.reach(places.saturating_sub(self.running), now);
        self.callers.is_within(reach, caller)
    }

    /// Returns the reach of callers and organisations. Under contention, the last permits are
    /// reserved for those that hold few.
    fn reach(&self, free: usize, now: Instant) -> Reach {
        let mut reach = Reach { of_caller: usize::MAX, of_organisation: usize::MAX };
        if is_recent(self.changed, CONTENTION_WINDOW, now) {
            reach.of_caller = MAX_SHARE_FACTOR * free;
        }
        if is_recent(self.organisation_changed, ORGANISATION_CONTENTION_WINDOW, now) {
            reach.of_organisation = MAX_SHARE_FACTOR * free;
        }
        reach
    }
}

/// The rules by which a limit grants permits.
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

    /// Takes a permit for a caller, if one is free and within its reach.
    pub(super) fn begin(&self, state: &mut TurnsState, caller: CallerId, now: Instant) -> bool {
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

    /// Borrows from the pool, if the limit is a member.
    fn lend(&self, what: usize) -> bool {
        match &self.part {
            Some(part) if what == RUNNING => part.running.take(),
            Some(part) => part.waiting.take(),
            None => true,
        }
    }

    /// Returns a permit or queue entry to the pool, and which part was freed.
    pub(super) fn unlend(&self, what: usize) -> Option<Freed> {
        let part = self.part.as_ref()?;
        let member = if what == RUNNING { &part.running } else { &part.waiting };
        Some(member.give_back())
    }

    /// Makes room for a queue entry, if necessary by displacing another
    /// ([`Callers::find_displaced`]).
    pub(super) fn make_room(
        &self,
        state: &mut TurnsState,
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
        // The newcomer takes over the slot that the displaced entry borrowed.
        Ok(Some(Notice {
            caller: longest,
            to: waiter.answer,
            answer: Err(ConcurrencyError::Displaced),
        }))
    }

    /// Grants a free permit to the caller that is next in turn. If only the pool has none left,
    /// `limit` is registered there to be woken.
    pub(super) fn next<L: PoolWaiter + 'static>(
        &self,
        state: &mut TurnsState,
        limit: &Weak<L>,
    ) -> Option<Notice> {
        let free = self.bounds().running.saturating_sub(state.running);
        if state.waiting == 0 || free == 0 {
            return None;
        }
        let now = Instant::now();
        let Some(caller) = state.callers.next(state.reach(free, now)) else {
            // The waiting callers are held back in favour of others, for which permits are free.
            state.full_since = None;
            return None;
        };
        if !self.begin(state, caller, now) {
            self.note_pool_waiter(state, limit);
            // A permit may have been returned before the registration.
            if !self.begin(state, caller, now) {
                return None;
            }
        }
        let waiter = state.callers.pop_oldest(caller)?;
        state.waiting -= 1;
        self.unlend(WAITING);
        Some(Notice { caller, to: waiter.answer, answer: Ok(()) })
    }

    /// Registers the limit with the pool, to be woken when a permit is free.
    fn note_pool_waiter<L: PoolWaiter + 'static>(&self, state: &mut TurnsState, limit: &Weak<L>) {
        let Some(part) = &self.part else { return };
        for &queue in part.running.queues() {
            let is_noted = &mut state.waits_for_pool[queue as usize];
            if !std::mem::replace(is_noted, true) {
                let limit: Weak<L> = Weak::clone(limit);
                part.running.wait(queue, limit);
            }
        }
    }
}
