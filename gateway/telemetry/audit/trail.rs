//! The handle that the request path has: it hands over a record, or says that it cannot. Nothing here waits, locks or touches
//! a file; room for a call's outcome is taken together with its decision.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;

use super::chain::Seal;
use super::event::{Event, Kept};
use super::sink::Sink;
use super::writer::Writer;
use super::{Arguments, Asked, AuditCounters, Config, Decision, OnFull, Refused};
use crate::counters::Outcome;

/// Takes what looks like a secret out of JSON text.
pub type Redact = Box<dyn Fn(&[u8]) -> Vec<u8> + Send>;

/// Refusals that are recorded in one second. Anybody can be refused as often as they like: the rest is counted.
const REFUSALS: u64 = 100;

/// How long the end of the gateway waits for the writer.
const FAREWELL: Duration = Duration::from_secs(5);

/// The trail cannot be opened.
#[derive(Debug, thiserror::Error)]
#[error("audit {output}: {error}")]
pub struct StartError {
    output: String,
    error: std::io::Error,
}

/// The record cannot be taken, and calls without one are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the audit trail cannot be written at the moment, and calls are not made without it; try again later")]
pub struct Unwritable;

/// See the module. Clones share it.
#[derive(Clone)]
pub struct Trail(Arc<Inner>);

struct Inner {
    sender: SyncSender<Event>,
    pub(super) shared: Arc<Shared>,
    seal: Seal,
    on_full: OnFull,
    arguments: Arguments,
    calls: AtomicU64,
    refusals: Refusals,
    ended: Mutex<Receiver<()>>,
}

/// How many refusals were recorded in this second, and how many were only counted since the last record.
#[derive(Default)]
struct Refusals {
    second: AtomicU64,
    recorded: AtomicU64,
    counted: AtomicU64,
}

impl Refusals {
    /// Whether one more may be recorded in this second after the trail began.
    fn take(&self, second: u64) -> bool {
        if self.second.swap(second, Relaxed) != second {
            self.recorded.store(0, Relaxed);
        }
        self.recorded.fetch_add(1, Relaxed) < REFUSALS
    }
}

/// What the request path and the writer both see.
pub(super) struct Shared {
    pub(super) counters: Arc<AuditCounters>,
    /// Places taken in the queue.
    pub(super) used: AtomicUsize,
    pub(super) queue: usize,
    /// Records lost since the writer last wrote how many.
    pub(super) gap: AtomicU64,
    /// The gateway does not wait for the writer any more.
    pub(super) hurry: AtomicBool,
}

impl fmt::Debug for Trail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trail").field("waiting", &self.0.shared.used.load(Relaxed)).finish_non_exhaustive()
    }
}

impl Trail {
    /// Opens the output and starts the writer's thread.
    ///
    /// # Errors
    /// [`StartError`]: the file cannot be opened, or holds a chain that cannot be continued.
    pub fn start(config: &Config, counters: Arc<AuditCounters>, redact: Redact) -> Result<Self, StartError> {
        let failed = |error| StartError { output: format!("{:?}", config.output), error };
        let seal = || Seal::new(config.key.as_deref());
        let (sink, tip, found) = Sink::open(config, &seal()).map_err(failed)?;
        // The end of the gateway has a place beyond those of calls.
        let (sender, receiver) = mpsc::sync_channel(config.queue + 1);
        let shared = Arc::new(Shared {
            counters,
            used: AtomicUsize::new(0),
            queue: config.queue,
            gap: AtomicU64::new(0),
            hurry: AtomicBool::new(false),
        });
        let writer = Writer::new(config, Arc::clone(&shared), receiver, sink, (seal(), tip), redact);
        let (done, ended) = mpsc::channel();
        let run = move || {
            writer.run(&found);
            let _ = done.send(());
        };
        std::thread::Builder::new().name("audit".into()).spawn(run).map_err(failed)?;
        let (on_full, arguments) = (config.on_full, config.arguments);
        let (calls, ended) = (AtomicU64::new(0), Mutex::new(ended));
        let refusals = Refusals::default();
        Ok(Self(Arc::new(Inner { sender, shared, seal: seal(), on_full, arguments, calls, refusals, ended })))
    }

    /// Records a decision; `arguments` is JSON text. For an allowed call the ticket stands for the outcome that is still to come.
    ///
    /// # Errors
    /// [`Unwritable`], when calls are not to be made without a record.
    pub fn decide(&self, asked: Asked, arguments: Option<&[u8]>, decision: Decision) -> Result<Ticket, Unwritable> {
        let allowed = matches!(decision, Decision::Allow(..));
        let places = 1 + usize::from(allowed);
        let call = self.0.calls.fetch_add(1, Relaxed) + 1;
        let ticket = |held| Ticket { trail: self.clone(), call, began: Instant::now(), held };
        let refuse = self.0.on_full == OnFull::Deny;
        if refuse && self.0.shared.counters.is_failing() || !self.reserve(places) {
            self.lost(1);
            return if refuse { Err(Unwritable) } else { Ok(ticket(false)) };
        }
        let arguments = Kept::of(arguments, self.0.arguments, |bytes| self.0.seal.digest(bytes));
        let asked = Box::new(asked);
        let sent = self.send(Event::Decision { call, at: SystemTime::now(), asked, arguments, decision });
        let ticket = ticket(allowed);
        if !sent && refuse { Err(Unwritable) } else { Ok(ticket) }
    }

    /// Records a request that was refused before it became a call. Of many in one second, most are only counted, and
    /// half of the queue is left to calls.
    pub fn refuse(&self, refused: Refused) {
        let at = SystemTime::now();
        let second = at.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let (shared, refusals) = (&self.0.shared, &self.0.refusals);
        if !refusals.take(second) || shared.used.load(Relaxed) > shared.queue / 2 || !self.reserve(1) {
            refusals.counted.fetch_add(1, Relaxed);
            return;
        }
        let more = refusals.counted.swap(0, Relaxed);
        if !self.send(Event::Refusal { at, refused: Box::new(refused), more }) {
            refusals.counted.fetch_add(more, Relaxed);
        }
    }

    /// Writes what is left and the last record. Later records are lost.
    pub fn close(&self) {
        if self.0.sender.try_send(Event::Close).is_ok() && self.0.ended.lock().recv_timeout(FAREWELL).is_err() {
            self.0.shared.hurry.store(true, Relaxed);
            tracing::error!("the audit trail could not be written to its end");
        }
    }

    fn reserve(&self, places: usize) -> bool {
        let shared = &self.0.shared;
        let enough = shared.used.fetch_add(places, Relaxed) + places <= shared.queue;
        if !enough {
            shared.used.fetch_sub(places, Relaxed);
        }
        enough
    }

    /// Into a place that was reserved.
    fn send(&self, event: Event) -> bool {
        let sent = self.0.sender.try_send(event).is_ok();
        if !sent {
            self.0.shared.used.fetch_sub(1, Relaxed);
            self.lost(1);
        }
        sent
    }

    fn lost(&self, records: u64) {
        self.0.shared.counters.lost(records);
        self.0.shared.gap.fetch_add(records, Relaxed);
    }
}

/// A place for the outcome of one call. Dropped without one, the call counts as cancelled.
#[must_use = "a call that is not finished counts as cancelled"]
#[derive(Debug)]
pub struct Ticket {
    trail: Trail,
    call: u64,
    began: Instant,
    /// There is a place in the queue.
    held: bool,
}

impl Ticket {
    /// Records how the call ended.
    pub fn finish(mut self, outcome: Outcome, duration: Duration) {
        self.end(outcome, duration);
    }

    fn end(&mut self, outcome: Outcome, duration: Duration) {
        if std::mem::take(&mut self.held) {
            self.trail.send(Event::Outcome { call: self.call, at: SystemTime::now(), outcome, duration });
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.end(Outcome::Cancelled, self.began.elapsed());
    }
}
