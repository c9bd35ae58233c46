//! The running and waiting callers of a limit, and the order of their turns: start-time fair
//! queueing on two levels, among organisations and among the callers of an organisation. Callers
//! without permits or queue entries take no memory.

use std::collections::{HashMap, VecDeque};
use std::sync::Weak;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use crate::caller_id::CallerId;
use crate::pool::{Membership, PoolWaiter};

#[derive(Default)]
pub(super) struct Callers {
    all: HashMap<CallerId, CallerEntry, ahash::RandomState>,
    organisations: HashMap<u64, Organisation, ahash::RandomState>,
    /// Virtual time: the start of the last turn. Organisations that join later start from here, so
    /// that they cannot claim past turns.
    clock: f64,
}

struct CallerEntry {
    running: usize,
    queue: VecDeque<Waiter>,
    had: f64,
}

struct Organisation {
    running: usize,
    waiting: usize,
    had: f64,
    /// Virtual time among the organisation's callers.
    clock: f64,
}

/// The number of permits below which a caller or organisation may get another.
#[derive(Clone, Copy)]
pub(super) struct Reach {
    pub(super) of_caller: usize,
    pub(super) of_organisation: usize,
}

impl Callers {
    /// Charges a caller `cost` for a permit.
    pub(super) fn begin(&mut self, caller: CallerId, cost: f64) {
        let clock = self.clock;
        let (organisation, entry) = self.entries(caller);
        let start = organisation.had.max(clock);
        organisation.had = start + cost;
        organisation.running += 1;

        let turn = entry.had.max(organisation.clock);
        entry.had = turn + cost;
        entry.running += 1;
        organisation.clock = turn;
        self.clock = start;
    }

    /// Returns a caller's permit, which cost `more` than charged.
    pub(super) fn end(&mut self, caller: CallerId, more: f64) {
        let (organisation, entry) = self.entries(caller);
        entry.running = entry.running.saturating_sub(1);
        entry.had += more;
        organisation.running = organisation.running.saturating_sub(1);
        organisation.had += more;
        self.tidy(caller);
    }

    pub(super) fn push(&mut self, caller: CallerId, waiter: Waiter) {
        let (organisation, entry) = self.entries(caller);
        entry.queue.push_back(waiter);
        organisation.waiting += 1;
    }

    pub(super) fn pop_oldest(&mut self, caller: CallerId) -> Option<Waiter> {
        let waiter = self.all.get_mut(&caller)?.queue.pop_front()?;
        self.leave_queue(caller);
        Some(waiter)
    }

    pub(super) fn pop_newest(&mut self, caller: CallerId) -> Option<Waiter> {
        let waiter = self.all.get_mut(&caller)?.queue.pop_back()?;
        self.leave_queue(caller);
        self.tidy(caller);
        Some(waiter)
    }

    /// Removes the entry with this ticket. Returns whether it was found.
    pub(super) fn leave(&mut self, caller: CallerId, ticket: u64) -> bool {
        let Some(entry) = self.all.get_mut(&caller) else { return false };
        let Some(place) = entry.queue.iter().position(|waiter| waiter.ticket == ticket) else {
            return false;
        };
        entry.queue.remove(place);
        self.leave_queue(caller);
        self.tidy(caller);
        true
    }

    /// Returns whether a caller may get another permit.
    pub(super) fn is_within(&self, reach: Reach, caller: CallerId) -> bool {
        // Without contention nothing is looked up.
        (reach.of_caller == usize::MAX || self.permits_of(caller) < reach.of_caller)
            && (reach.of_organisation == usize::MAX
                || self.running_of(caller) < reach.of_organisation)
    }

    /// Returns the waiting caller within reach that is next in turn.
    pub(super) fn next(&self, reach: Reach) -> Option<CallerId> {
        let first = self.first(
            |caller| self.is_within(reach, caller),
            |caller, _| self.turn_of_organisation(caller),
        );
        let organisation = first?.organisation;
        let clock = self.organisations.get(&organisation).map_or(0.0, |known| known.clock);
        self.first(
            |caller| caller.organisation == organisation && self.is_within(reach, caller),
            |_, entry| entry.had.max(clock),
        )
    }

    fn turn_of_organisation(&self, caller: CallerId) -> f64 {
        let organisation = self.organisations.get(&caller.organisation);
        organisation.map_or(self.clock, |organisation| organisation.had.max(self.clock))
    }

    /// Returns the matching waiting caller with the least service; ties go to the longest waiting.
    fn first(
        &self,
        fits: impl Fn(CallerId) -> bool,
        had: impl Fn(CallerId, &CallerEntry) -> f64,
    ) -> Option<CallerId> {
        let mut best: Option<(f64, u64, CallerId)> = None;
        for (&caller, entry) in &self.all {
            let Some(first) = entry.queue.front() else { continue };
            if !fits(caller) {
                continue;
            }
            let turn = (had(caller, entry), first.ticket);
            if best.is_none_or(|(had, ticket, _)| turn < (had, ticket)) {
                best = Some((turn.0, turn.1, caller));
            }
        }
        best.map(|(_, _, caller)| caller)
    }

    /// Returns the caller that loses its newest entry to a newcomer in a full queue. If the longest
    /// organisation has more entries than the newcomer's would have, this is its caller with the
    /// most entries; otherwise the newcomer's organisation's, if that caller has more entries than
    /// the newcomer would have.
    pub(super) fn find_displaced(&self, newcomer: CallerId) -> Option<CallerId> {
        let own = self.organisations.get(&newcomer.organisation).map_or(0, |own| own.waiting);
        let most = self.organisations.iter().max_by_key(|(_, organisation)| organisation.waiting);
        let organisation = match most {
            Some((&longest, organisation)) if organisation.waiting > own + 1 => longest,
            _ => newcomer.organisation,
        };
        let (longest, queued) = self.find_longest(organisation)?;
        let own = self.all.get(&newcomer).map_or(0, |own| own.queue.len());
        let is_other = organisation != newcomer.organisation;
        if is_other || queued > own + 1 { Some(longest) } else { None }
    }

    /// Returns the caller of an organisation with the most entries and their number; ties go to the
    /// newest entry.
    fn find_longest(&self, organisation: u64) -> Option<(CallerId, usize)> {
        let mut longest = None;
        for (&caller, entry) in &self.all {
            let Some(last) = entry.queue.back() else { continue };
            if caller.organisation == organisation {
                longest = longest.max(Some((entry.queue.len(), last.ticket, caller)));
            }
        }
        longest.map(|(queued, _, caller)| (caller, queued))
    }

    fn running_of(&self, caller: CallerId) -> usize {
        self.organisations.get(&caller.organisation).map_or(0, |known| known.running)
    }

    fn permits_of(&self, caller: CallerId) -> usize {
        self.all.get(&caller).map_or(0, |entry| entry.running)
    }

    /// Returns the entries of the organisation and the caller, created if missing.
    fn entries(&mut self, caller: CallerId) -> (&mut Organisation, &mut CallerEntry) {
        let had = self.clock;
        let organisation = self.organisations.entry(caller.organisation).or_insert(Organisation {
            running: 0,
            waiting: 0,
            had,
            clock: 0.0,
        });
        let had = organisation.clock;
        let entry = self.all.entry(caller).or_insert_with(|| CallerEntry {
            running: 0,
            queue: VecDeque::new(),
            had,
        });
        (organisation, entry)
    }

    /// Counts an entry less in the organisation's queues.
    fn leave_queue(&mut self, caller: CallerId) {
        if let Some(organisation) = self.organisations.get_mut(&caller.organisation) {
            organisation.waiting -= 1;
        }
    }

    /// Removes a caller without permits and queue entries, and likewise its organisation.
    fn tidy(&mut self, caller: CallerId) {
        if let Some(entry) = self.all.get(&caller)
            && entry.running == 0
            && entry.queue.is_empty()
        {
            self.all.remove(&caller);
        }
        if let Some(organisation) = self.organisations.get(&caller.organisation)
            && organisation.running == 0
            && organisation.waiting == 0
        {
            self.organisations.remove(&caller.organisation);
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.all.len() + self.organisations.len()
    }
}

/// While two callers were seen within this time, the last permits are reserved for callers that
/// hold few.
const CONTENTION_WINDOW: Duration = Duration::from_secs(60);
/// The same for organisations; longer, so that rare callers find a permit, too.
const ORGANISATION_CONTENTION_WINDOW: Duration = Duration::from_secs(600);
/// Maximum permits of a caller or organisation, as a multiple of the free permits: 28 of 32.
const MAX_SHARE_FACTOR: usize = 7;

#[derive(Default)]
pub(super) struct TurnsState {
    pub(super) bounds: Bounds,
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

    /// Sets the bounds. At least one permit can be held.
    pub(super) fn resize(&mut self, bounds: Bounds) {
        self.bounds = Bounds { running: bounds.running.max(1), ..bounds };
    }

    /// Returns the number of free permits.
    fn free(&self) -> usize {
        self.bounds.running.saturating_sub(self.running)
    }

    /// Returns whether a caller may take a permit of those that are free.
    pub(super) fn is_within_reach(&self, caller: CallerId, now: Instant) -> bool {
        self.callers.is_within(self.reach(now), caller)
    }

    /// Returns the reach of callers and organisations. Under contention, the last permits are
    /// reserved for those that hold few.
    fn reach(&self, now: Instant) -> Reach {
        let free = self.free();
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
    pub(super) charge: Charge,
    pub(super) part: Option<Membership>,
}

fn is_recent(changed: Option<Instant>, longest: Duration, now: Instant) -> bool {
    changed.is_some_and(|changed| now.saturating_duration_since(changed) < longest)
}

impl Rules {
    /// Takes a permit for a caller, if one is free and within its reach.
    pub(super) fn begin(&self, state: &mut TurnsState, caller: CallerId, now: Instant) -> bool {
        if state.free() == 0
            || !state.is_within_reach(caller, now)
            || self.part.as_ref().is_some_and(|part| !part.running.take())
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

    /// Returns a queue entry to the pool, if the limit is a member.
    pub(super) fn end_wait(&self) {
        if let Some(part) = &self.part {
            part.waiting.give_back();
        }
    }

    /// Makes room for a queue entry, if necessary by displacing another
    /// ([`Callers::find_displaced`]).
    pub(super) fn make_room(
        &self,
        state: &mut TurnsState,
        caller: CallerId,
    ) -> Result<Option<Notice>, ConcurrencyError> {
        let refused = if state.waiting >= state.bounds.waiting {
            ConcurrencyError::Full
        } else if self.part.as_ref().is_none_or(|part| part.waiting.take()) {
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
        if state.waiting == 0 || state.free() == 0 {
            return None;
        }
        let now = Instant::now();
        let Some(caller) = state.callers.next(state.reach(now)) else {
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
        self.end_wait();
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

/// The number of permits and of queue entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    pub running: usize,
    pub waiting: usize,
}

/// The quantity that is shared fairly among callers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Charge {
    /// Callers get equal numbers of permits.
    Turns,
    /// Callers get equal amounts of time.
    Time,
}

/// The reason why a permit was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConcurrencyError {
    /// The queue of this limit is full.
    Full,
    /// The shared queue of the pool is full.
    PoolFull,
    /// Removed from a full queue in favour of a caller with fewer entries.
    Displaced,
}

pub(super) type Answer = Result<(), ConcurrencyError>;

pub(super) struct Waiter {
    pub(super) ticket: u64,
    pub(super) answer: oneshot::Sender<Answer>,
}

/// An answer to be sent after the lock is released, because the woken task may run at once.
pub(super) struct Notice {
    pub(super) caller: CallerId,
    pub(super) to: oneshot::Sender<Answer>,
    pub(super) answer: Answer,
}
