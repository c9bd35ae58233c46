//! Records between the request path and the writer: bytes that lie one behind the other, so that
//! handing one over wakes nobody and allocates nothing. The lock is held while bytes are copied,
//! and never while anything waits.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::{Duration, SystemTime};

use parking_lot::{Condvar, Mutex};

use super::counters::AuditCounters;

/// Room that an emptied batch keeps.
const KEPT_BYTES: usize = 1024 * 1024;

/// See the module.
pub(super) struct Queue {
    waiting: Mutex<Waiting>,
    woken: Condvar,
    /// Records that have room, those that running calls still owe included.
    places: usize,
}

#[derive(Default)]
struct Waiting {
    batch: Batch,
    /// Places taken.
    used: usize,
    /// The writer waits to be woken.
    asleep: bool,
    closed: bool,
}

/// Records in the order in which they came.
#[derive(Default)]
pub(super) struct Batch {
    bytes: Vec<u8>,
    records: Vec<Piece>,
}

struct Piece {
    /// Where its bytes end.
    end: usize,
    at: SystemTime,
    held: Option<Box<[u8]>>,
}

/// A record on its way.
#[derive(Clone, Copy)]
pub(super) struct Draft<'a> {
    pub(super) at: SystemTime,
    /// Its members but the first ones, which the writer knows, each after a comma.
    pub(super) members: &'a [u8],
    /// Arguments whose text the writer adds.
    pub(super) held: Option<&'a [u8]>,
}

impl Queue {
    pub(super) fn new(places: usize) -> Self {
        Self { waiting: Mutex::default(), woken: Condvar::new(), places }
    }

    /// Hands over a record and takes `places`: its own and those of records that will follow it
    /// with [`Queue::follow`]. False when fewer than that are free, besides `spare`, or the queue
    /// is closed.
    pub(super) fn offer(&self, places: usize, spare: usize, draft: Draft<'_>) -> bool {
        let held = draft.held.map(Box::from);
        let mut waiting = self.waiting.lock();
        if waiting.closed || waiting.used + places + spare > self.places {
            return false;
        }
        waiting.used += places;
        waiting.batch.push(draft, held);
        self.wake(&mut waiting);
        true
    }

    /// Takes places for records that will follow with [`Queue::follow`]. False when fewer than that
    /// are free, or the queue is closed.
    pub(super) fn reserve(&self, places: usize) -> bool {
        let mut waiting = self.waiting.lock();
        if waiting.closed || waiting.used + places > self.places {
            return false;
        }
        waiting.used += places;
        true
    }

    /// Hands over a record that has its place already. False, and the place is free, when the queue
    /// is closed.
    pub(super) fn follow(&self, draft: Draft<'_>) -> bool {
        let mut waiting = self.waiting.lock();
        if waiting.closed {
            waiting.used -= 1;
            return false;
        }
        waiting.batch.push(draft, None);
        self.wake(&mut waiting);
        true
    }

    fn wake(&self, waiting: &mut Waiting) {
        if std::mem::take(&mut waiting.asleep) {
            self.woken.notify_one();
        }
    }

    pub(super) fn places(&self) -> usize {
        self.places
    }

    /// Places taken.
    pub(super) fn used(&self) -> usize {
        self.waiting.lock().used
    }

    /// Puts what waits into an empty batch; whether nothing will follow.
    pub(super) fn take(&self, batch: &mut Batch) -> bool {
        let mut waiting = self.waiting.lock();
        std::mem::swap(&mut waiting.batch, batch);
        waiting.closed
    }

    /// Frees the places of records that were taken and written.
    pub(super) fn free(&self, places: usize) {
        self.waiting.lock().used -= places;
    }

    /// Waits until something comes.
    pub(super) fn sleep(&self, most: Duration) {
        let mut waiting = self.waiting.lock();
        if waiting.batch.records.is_empty() && !waiting.closed {
            waiting.asleep = true;
            self.woken.wait_for(&mut waiting, most);
            waiting.asleep = false;
        }
    }

    /// Takes nothing more.
    pub(super) fn close(&self) {
        let mut waiting = self.waiting.lock();
        waiting.closed = true;
        self.wake(&mut waiting);
    }
}

impl Batch {
    fn push(&mut self, draft: Draft<'_>, held: Option<Box<[u8]>>) {
        self.bytes.extend_from_slice(draft.members);
        self.records.push(Piece { end: self.bytes.len(), at: draft.at, held });
    }

    pub(super) fn len(&self) -> usize {
        self.records.len()
    }

    pub(super) fn records(&self) -> impl Iterator<Item = Draft<'_>> {
        let mut begin = 0;
        self.records.iter().map(move |Piece { end, at, held }| {
            let members = self.bytes.get(begin..*end).unwrap_or(&[]);
            begin = *end;
            Draft { at: *at, members, held: held.as_deref() }
        })
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.records.clear();
        self.bytes.shrink_to(KEPT_BYTES);
        self.records.shrink_to(KEPT_BYTES / size_of::<Piece>());
    }
}

/// What the request path and the writer both see.
pub(super) struct Shared {
    pub(super) counters: Arc<AuditCounters>,
    pub(super) queue: Queue,
    /// Records lost since the writer last wrote how many.
    pub(super) gap: AtomicU64,
    /// The gateway does not wait for the writer any more.
    pub(super) hurry: AtomicBool,
}
