//! The request path's handle to the trail: queues records or reports failure. It never waits or
//! touches a file; a call's outcome gets its queue slot together with the decision.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lockgate_text::unseen::is_unseen;
use parking_lot::Mutex;

use super::chain::Seal;
use super::config::{Config, OnFull, Redact};
use super::event::{self, Approval, Arguments, Asked, Decision, MAX_HELD, Refused, name};
use super::queue::{AuditCounters, Draft, Queue, Shared};
use super::writer::{Sink, Writer};
use crate::labels::Outcome;

/// Refusals recorded per second. Unauthenticated callers can cause any number; the rest is counted.
const MAX_REFUSALS_PER_SECOND: u64 = 100;

/// Typical bytes of a record.
const TYPICAL_RECORD_BYTES: usize = 512;
/// Maximum buffer capacity that a thread keeps for its next record.
const MAX_KEPT_CAPACITY: usize = 16 * 1024;

/// Maximum time that shutdown waits for the writer.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

/// The error for a record that cannot be taken while calls without a record are denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the audit trail cannot be written, and calls are not made without it; retry later")]
pub struct RecordError;

/// A handle to the audit trail. Clones share the trail.
#[derive(Clone)]
pub struct Trail(Arc<Inner>);

struct Inner {
    shared: Arc<Shared>,
    seal: Seal,
    on_full: OnFull,
    arguments: Arguments,
    calls: AtomicU64,
    refusals: Refusals,
    ended: Mutex<Receiver<()>>,
}

/// The refusals recorded in the current second, and those only counted since the last record.
#[derive(Default)]
struct Refusals {
    second: AtomicU64,
    recorded: AtomicU64,
    counted: AtomicU64,
}

impl Refusals {
    /// Returns whether a further refusal may be recorded in this second.
    fn take(&self, second: u64) -> bool {
        if self.second.swap(second, Relaxed) != second {
            self.recorded.store(0, Relaxed);
        }
        self.recorded.fetch_add(1, Relaxed) < MAX_REFUSALS_PER_SECOND
    }
}

/// Ends the writer with the last handle.
impl Drop for Inner {
    fn drop(&mut self) {
        self.shared.queue.close();
    }
}

lockgate_text::debug_fields!(Trail);

impl Trail {
    /// Opens the output and starts the writer thread.
    ///
    /// # Errors
    /// The file cannot be opened, or holds a chain that cannot be continued.
    pub fn start(
        config: &Config,
        counters: Arc<AuditCounters>,
        redact: Redact,
    ) -> std::io::Result<Self> {
        let seal = Seal::new(config.key.as_deref());
        let (sink, tip, found) = Sink::open(config, &seal)?;
        counters.begun.store(tip.seq, Relaxed);
        let shared = Arc::new(Shared {
            counters,
            queue: Queue::new(config.queue),
            gap: AtomicU64::new(0),
            hurry: AtomicBool::new(false),
        });
        let writer = Writer::new(config, Arc::clone(&shared), sink, (seal.clone(), tip), redact);
        let (done, ended) = mpsc::channel();
        std::thread::Builder::new().name("audit".into()).spawn(move || {
            writer.run(&found);
            let _ = done.send(());
        })?;
        Ok(Self(Arc::new(Inner {
            shared,
            seal,
            on_full: config.on_full,
            arguments: config.arguments,
            calls: AtomicU64::new(0),
            refusals: Refusals::default(),
            ended: Mutex::new(ended),
        })))
    }

    /// Records a decision; `arguments` is JSON text. The ticket of an allowed call records its
    /// outcome.
    pub fn decide(
        &self,
        asked: &Asked<'_>,
        arguments: Option<&[u8]>,
        decision: Decision<'_>,
    ) -> Result<Ticket<'_>, RecordError> {
        let allowed = matches!(decision, Decision::Allow(..));
        let call = self.0.calls.fetch_add(1, Relaxed) + 1;
        let at = SystemTime::now();
        let taken = self.offer(1 + usize::from(allowed), at, |members| {
            event::decision(members, call, asked, decision);
            let text = arguments?;
            match self.0.arguments {
                Arguments::Omitted => return None,
                Arguments::Redacted if text.len() <= MAX_HELD => return Some(text),
                Arguments::Redacted | Arguments::Digest => {}
            }
            event::arguments(members, text.len(), &self.0.seal.digest(text), None);
            None
        })?;
        Ok(Ticket { trail: self, call, at, held: taken && allowed })
    }

    /// Queues a record, and takes `places` slots. `write` appends its members and returns the
    /// arguments to redact. Returns whether the record was taken.
    fn offer<'a>(
        &self,
        places: usize,
        at: SystemTime,
        write: impl FnOnce(&mut Vec<u8>) -> Option<&'a [u8]>,
    ) -> Result<bool, RecordError> {
        let taken = self.take(|queue| {
            scratch(|members| {
                let held = write(members);
                queue.offer(places, 0, Draft { at, members, held })
            })
        });
        if taken != Ok(true) {
            self.lose();
        }
        taken
    }

    /// Takes slots, unless calls without a record are denied while writing fails. Returns whether
    /// they were taken.
    fn take(&self, take: impl FnOnce(&Queue) -> bool) -> Result<bool, RecordError> {
        let Inner { shared, on_full, .. } = &*self.0;
        let refuse = *on_full == OnFull::Deny;
        let failing = refuse && shared.counters.failing.get() != 0;
        let taken = !failing && take(&shared.queue);
        if taken || !refuse { Ok(taken) } else { Err(RecordError) }
    }

    /// Queues a record in a slot taken before.
    fn follow(&self, at: SystemTime, write: impl FnOnce(&mut Vec<u8>)) {
        let taken = scratch(|members| {
            write(members);
            self.0.shared.queue.follow(Draft { at, members, held: None })
        });
        if !taken {
            self.lose();
        }
    }

    /// Records a request rejected before it became a call. Above a rate, refusals are only counted,
    /// and half of the queue is reserved for calls.
    pub fn refuse(&self, refused: Refused<'_>) {
        let at = SystemTime::now();
        let second = at.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let queue = &self.0.shared.queue;
        let refusals = &self.0.refusals;
        if !refusals.take(second) {
            refusals.counted.fetch_add(1, Relaxed);
            return;
        }
        let more = refusals.counted.swap(0, Relaxed);
        let taken = scratch(|members| {
            event::refusal(members, refused, more);
            queue.offer(1, queue.places / 2, Draft { at, members, held: None })
        });
        if !taken {
            refusals.counted.fetch_add(more + 1, Relaxed);
        }
    }

    /// Records a step of an approval.
    pub fn approval(&self, about: &Approval<'_>) -> Result<(), RecordError> {
        self.offer(1, SystemTime::now(), |members| {
            event::approval(members, about);
            None
        })?;
        Ok(())
    }

    /// Writes the remaining records and the closing record. Later records are lost.
    pub fn close(&self) {
        self.0.shared.queue.close();
        if self.0.ended.lock().recv_timeout(SHUTDOWN_TIMEOUT) == Err(RecvTimeoutError::Timeout) {
            self.0.shared.hurry.store(true, Relaxed);
            tracing::error!("the last records of the audit trail could not be written");
        }
    }

    /// Counts a lost record.
    fn lose(&self) {
        self.0.shared.counters.dropped.add(1);
        self.0.shared.gap.fetch_add(1, Relaxed);
    }
}

/// Runs `write` with an empty buffer of this thread. The buffer's capacity is reused.
fn scratch<T>(write: impl FnOnce(&mut Vec<u8>) -> T) -> T {
    thread_local! {
        static MEMBERS: RefCell<Vec<u8>> = RefCell::new(Vec::with_capacity(TYPICAL_RECORD_BYTES));
    }
    MEMBERS.with_borrow_mut(|members| {
        members.clear();
        members.shrink_to(MAX_KEPT_CAPACITY);
        write(members)
    })
}

/// A reserved record for the outcome of a call. Dropping it records the call as cancelled.
#[must_use = "a call that is not finished counts as cancelled"]
#[derive(Debug)]
pub struct Ticket<'a> {
    trail: &'a Trail,
    call: u64,
    at: SystemTime,
    held: bool,
}

impl Ticket<'_> {
    /// Records the outcome of the call, `duration` after its decision.
    pub fn finish(mut self, outcome: Outcome, duration: Duration) {
        self.end(outcome, duration);
    }

    fn end(&mut self, outcome: Outcome, duration: Duration) {
        if std::mem::take(&mut self.held) {
            let at = self.at.checked_add(duration).unwrap_or(self.at);
            let call = self.call;
            self.trail.follow(at, |members| event::outcome(members, call, outcome, duration));
        }
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        self.end(Outcome::Cancelled, self.at.elapsed().unwrap_or_default());
    }
}

// Changes by administrators while the gateway runs, each with the previous and the new state. Room
// for the record is reserved before the change is made, so that, if configured, unrecordable
// changes are denied.

/// Maximum bytes of a state that is kept as JSON.
const MAX_STATE: usize = 8 * 1024;
/// Maximum bytes of text kept of a longer state, or of a state with invisible characters.
const MAX_STATE_TEXT: usize = 2 * 1024;

/// A completed change.
#[derive(Clone, Copy, Debug)]
pub struct Change<'a> {
    /// The action, such as `create agent`.
    pub action: &'static str,
    /// The administrator.
    pub issuer: &'a str,
    pub subject: &'a str,
    /// The display name of the administrator's key.
    pub key: Option<&'a str>,
    /// The organisation of the changed object; `None` for shared objects.
    pub organisation: Option<&'a str>,
    /// JSON text without secrets; `None` for a created object.
    pub before: Option<&'a str>,
    /// JSON text without secrets; `None` for a deleted object.
    pub after: Option<&'a str>,
}

/// Room for the record of a change, released on drop if nothing was changed.
#[derive(Debug)]
pub struct ChangePlace {
    trail: Trail,
    held: bool,
}

impl Trail {
    /// Reserves room for the record of an upcoming change.
    pub fn reserve_change(&self) -> Result<ChangePlace, RecordError> {
        let held = self.take(|queue| queue.reserve(1))?;
        Ok(ChangePlace { trail: self.clone(), held })
    }
}

impl ChangePlace {
    /// Records the completed change.
    pub fn record(mut self, change: &Change<'_>) {
        if std::mem::take(&mut self.held) {
            self.trail.follow(SystemTime::now(), |members| write_change(members, change));
        } else {
            self.trail.lose();
        }
    }
}

impl Drop for ChangePlace {
    fn drop(&mut self) {
        if self.held {
            self.trail.0.shared.queue.free(1);
        }
    }
}

fn write_change(out: &mut Vec<u8>, change: &Change<'_>) {
    event::plain(out, name!("kind"), "change");
    event::plain(out, name!("action"), change.action);
    event::text(out, name!("issuer"), change.issuer);
    event::text(out, name!("who"), change.subject);
    event::maybe(out, name!("key"), change.key);
    event::client(out);
    event::maybe(out, name!("organisation"), change.organisation);
    write_state(out, name!("before"), change.before);
    write_state(out, name!("after"), change.after);
}

/// Writes a state as a JSON object, or as truncated and escaped text.
fn write_state(out: &mut Vec<u8>, name: &str, state: Option<&str>) {
    let Some(state) = state else { return };
    if state.len() <= MAX_STATE && state.starts_with('{') && !state.chars().any(is_unseen) {
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(state.as_bytes());
    } else {
        event::escaped(out, name, state, MAX_STATE_TEXT);
    }
}
