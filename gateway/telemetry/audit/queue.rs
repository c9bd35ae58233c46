//! The queue of records from the request path to the writer. Records are appended to one buffer, so
//! that queueing rarely wakes the writer or allocates. The lock is held only while bytes are
//! copied, never while waiting.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::{Duration, SystemTime};

use parking_lot::{Condvar, Mutex};

use crate::counters::{Number, numbers};

/// Buffer capacity that an emptied batch keeps.
const KEPT_BYTES: usize = 1024 * 1024;

pub(super) struct Queue {
    waiting: Mutex<Waiting>,
    woken: Condvar,
    /// Capacity in records, including reserved records of running calls.
    pub(super) places: usize,
}

#[derive(Default)]
struct Waiting {
    batch: Batch,
    used: usize,
    /// The writer is waiting to be woken.
    asleep: bool,
    closed: bool,
}

#[derive(Default)]
pub(super) struct Batch {
    bytes: Vec<u8>,
    records: Vec<Piece>,
}

struct Piece {
    /// End offset of the record's bytes.
    end: usize,
    at: SystemTime,
    held: Option<Box<[u8]>>,
}

#[derive(Clone, Copy)]
pub(super) struct Draft<'a> {
    pub(super) at: SystemTime,
    /// The members after `seq` and `time`, which the writer adds, each after a comma.
    pub(super) members: &'a [u8],
    /// Arguments to redact; the writer adds their text.
    pub(super) held: Option<&'a [u8]>,
}

impl Queue {
    pub(super) fn new(places: usize) -> Self {
        Self { waiting: Mutex::default(), woken: Condvar::new(), places }
    }

    /// Queues a record and takes `places` slots: its own, and those of later records queued with
    /// [`Queue::follow`]. Returns `false` if fewer than `places + spare` are free, or the queue is
    /// closed.
    pub(super) fn offer(&self, places: usize, spare: usize, draft: Draft<'_>) -> bool {
        let held = draft.held.map(Box::from);
        let mut waiting = self.waiting.lock();
        if !waiting.take(places, self.places.saturating_sub(spare)) {
            return false;
        }
        waiting.batch.push(draft, held);
        self.wake(&mut waiting);
        true
    }

    /// Takes slots for records that will follow with [`Queue::follow`]. Returns `false` if fewer
    /// are free, or the queue is closed.
    pub(super) fn reserve(&self, places: usize) -> bool {
        self.waiting.lock().take(places, self.places)
    }

    /// Queues a record in a slot taken before. If the queue is closed, frees the slot and returns
    /// `false`.
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

    /// Swaps the queued records into an empty batch. Returns whether the queue is closed.
    pub(super) fn take(&self, batch: &mut Batch) -> bool {
        let mut waiting = self.waiting.lock();
        std::mem::swap(&mut waiting.batch, batch);
        waiting.closed
    }

    /// Frees the slots of written records.
    pub(super) fn free(&self, places: usize) {
        self.waiting.lock().used -= places;
    }

    /// Waits up to `most` for a record.
    pub(super) fn sleep(&self, most: Duration) {
        let mut waiting = self.waiting.lock();
        if waiting.batch.records.is_empty() && !waiting.closed {
            waiting.asleep = true;
            self.woken.wait_for(&mut waiting, most);
            waiting.asleep = false;
        }
    }

    pub(super) fn close(&self) {
        let mut waiting = self.waiting.lock();
        waiting.closed = true;
        self.wake(&mut waiting);
    }
}

impl Waiting {
    /// Takes slots if they are among the first `most`, and the queue is open.
    fn take(&mut self, places: usize, most: usize) -> bool {
        let is_free = !self.closed && self.used + places <= most;
        self.used += if is_free { places } else { 0 };
        is_free
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

pub(super) struct Shared {
    pub(super) counters: Arc<AuditCounters>,
    pub(super) queue: Queue,
    /// Lost records that no gap record covers yet.
    pub(super) gap: AtomicU64,
    /// The gateway no longer waits for the writer.
    pub(super) hurry: AtomicBool,
}

// Counters of the trail and of its receivers, for metrics. Lock-free on the path of a record.

numbers! {
    /// Counters updated by the writer, and by callers after the loss of a record.
    pub struct AuditCounters {
        /// Records written to the audit trail
        written = "lockgate_audit_records_total",
        /// Records missing in the audit trail
        dropped = "lockgate_audit_lost_total",
        /// 1 while the audit trail cannot be written
        failing = "lockgate_audit_failing",
        ;
        /// Number of the last record before this process.
        pub(super) begun: AtomicU64,
        pub(crate) forwards: Mutex<Vec<(&'static str, Arc<ForwardCounters>)>>,
    }
}

impl AuditCounters {
    /// Returns the number of the last record before those of this process.
    pub fn begun(&self) -> u64 {
        self.begun.load(Relaxed)
    }

    /// Returns the number of the last written record.
    pub fn last(&self) -> u64 {
        self.begun() + self.written.get()
    }

    /// Creates the counters of a receiver that records are forwarded to.
    pub fn forward(&self, to: &'static str) -> Arc<ForwardCounters> {
        let counters = Arc::<ForwardCounters>::default();
        self.forwards.lock().push((to, Arc::clone(&counters)));
        counters
    }
}

numbers! {
    /// Counters of forwarding to a receiver, updated by the forwarder.
    pub struct ForwardCounters {
        /// Audit records accepted by a receiver
        taken = "lockgate_audit_forwarded_total",
        /// Audit records removed by rotation before a receiver accepted them
        lost = "lockgate_audit_forward_lost_total",
        /// 1 while a receiver of the audit trail does not accept records
        failing = "lockgate_audit_forward_failing",
        ;
        /// The last record that was sent and needs no retry, as far as known.
        pub sent: Number,
    }
}
