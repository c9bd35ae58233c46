//! The callers of one limit that run or wait, and whose turn it is: the caller's who has had least
//! since all of them wanted something (start-time fair queueing). Whoever holds nothing takes no
//! room here.

use std::collections::{HashMap, VecDeque};

use super::waiter::Waiter;

/// See the module.
#[derive(Default)]
pub(super) struct Callers {
    all: HashMap<u64, Entry, ahash::RandomState>,
    /// What the last caller whose turn it was had had before. Nobody who comes later may claim
    /// more.
    clock: f64,
}

/// One caller.
pub(super) struct Entry {
    pub(super) running: usize,
    pub(super) queue: VecDeque<Waiter>,
    had: f64,
}

impl Callers {
    /// A caller, made known if it is not.
    pub(super) fn entry(&mut self, caller: u64) -> &mut Entry {
        let clock = self.clock;
        self.all.entry(caller).or_insert_with(|| Entry {
            running: 0,
            queue: VecDeque::new(),
            had: clock,
        })
    }

    pub(super) fn running(&self, caller: u64) -> usize {
        self.all.get(&caller).map_or(0, |entry| entry.running)
    }

    pub(super) fn queued(&self, caller: u64) -> usize {
        self.all.get(&caller).map_or(0, |entry| entry.queue.len())
    }

    /// A caller takes a place, which costs it `cost`.
    pub(super) fn begin(&mut self, caller: u64, cost: f64) {
        let clock = self.clock;
        let entry = self.entry(caller);
        let start = entry.had.max(clock);
        entry.had = start + cost;
        entry.running += 1;
        self.clock = start;
    }

    /// A caller gives a place back, which has cost it `more` than was thought.
    pub(super) fn end(&mut self, caller: u64, more: f64) {
        let entry = self.entry(caller);
        entry.running = entry.running.saturating_sub(1);
        entry.had += more;
        self.tidy(caller);
    }

    /// Whose turn it is among those who wait and of whom `fits` is true.
    pub(super) fn next(&self, fits: impl Fn(&Entry) -> bool) -> Option<u64> {
        let mut best: Option<(f64, u64, u64)> = None;
        for (&caller, entry) in &self.all {
            let Some(first) = entry.queue.front() else { continue };
            if !fits(entry) {
                continue;
            }
            let turn = (entry.had.max(self.clock), first.ticket);
            if best.is_none_or(|(had, ticket, _)| turn < (had, ticket)) {
                best = Some((turn.0, turn.1, caller));
            }
        }
        best.map(|(_, _, caller)| caller)
    }

    /// Who has most in the queue, and how many that are.
    pub(super) fn longest(&self) -> Option<(u64, usize)> {
        let lengths = self.all.iter().map(|(&caller, entry)| (caller, entry.queue.len()));
        lengths.max_by_key(|(_, length)| *length)
    }

    /// Forgets a caller who holds nothing.
    pub(super) fn tidy(&mut self, caller: u64) {
        if self.all.get(&caller).is_some_and(|entry| entry.running == 0 && entry.queue.is_empty()) {
            self.all.remove(&caller);
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }
}
