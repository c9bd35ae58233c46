//! The thread that writes the trail: batches, anchors, rotation, and trying again for as long as
//! nothing can be written. What it holds is bounded by the queue, and by one piece of what it
//! writes.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant, SystemTime};

use super::chain::{Chain, Seal, Tip};
use super::config::{Config, Redact};
use super::event::{self, Clock, name};
use super::file::Found;
use super::queue::{Batch, Draft, Shared};
use super::sink::Sink;

/// What is written at once has about this many bytes.
const PIECE: usize = 256 * 1024;
/// To a stream, about this many: what a pipe takes at once, it takes whole, with the hash, also
/// when the process is killed.
const STREAM_PIECE: usize = 3 * 1024;
/// While records keep coming they are taken this often, so that nobody who adds one has to wake the
/// writer.
const LOOK: Duration = Duration::from_millis(10);
/// Looks without a record before the writer sleeps until it is woken.
const LOOKS: u32 = 20;
/// Longest sleep; also how often written records are brought to the disk itself, and the file is
/// looked at.
const SLEEP: Duration = Duration::from_secs(1);
/// Pause between two attempts to write.
const RETRY: Duration = Duration::from_millis(200);
/// Attempts made once the gateway ends.
const LAST_ATTEMPTS: u32 = 5;

/// See the module.
pub(super) struct Writer {
    shared: Arc<Shared>,
    sink: Sink,
    /// The first `written` bytes of what it holds are written.
    chain: Chain,
    written: usize,
    redact: Redact,
    clock: Clock,
    anchor_every: Duration,
    records: u64,
    anchored: Instant,
    synced: Instant,
    looked: Instant,
    dirty: bool,
    closing: bool,
}

impl Writer {
    pub(super) fn new(
        config: &Config,
        shared: Arc<Shared>,
        sink: Sink,
        (seal, tip): (Seal, Tip),
        redact: Redact,
    ) -> Self {
        Self {
            shared,
            sink,
            chain: Chain::new(seal, tip, PIECE),
            written: 0,
            redact,
            clock: Clock::default(),
            anchor_every: config.anchor,
            records: 0,
            anchored: Instant::now(),
            synced: Instant::now(),
            looked: Instant::now(),
            dirty: false,
            closing: false,
        }
    }

    /// Writes until the gateway ends or is gone.
    pub(super) fn run(mut self, found: &Found) {
        if let Some((from, to)) = found.missing {
            tracing::error!(
                from,
                to,
                "records of the audit trail are missing: somebody has cut it"
            );
        }
        if let Some((from, to)) = found.gone {
            tracing::error!(
                from,
                to,
                "records of the audit trail are missing that rotation did not remove"
            );
        }
        self.open("start", found);
        let mut batch = Batch::default();
        let mut idle = 0;
        while !self.closing {
            match idle {
                0..LOOKS => std::thread::sleep(LOOK),
                _ => self.shared.queue.sleep(SLEEP),
            }
            self.closing = self.shared.queue.take(&mut batch);
            idle = if batch.len() > 0 { 0 } else { idle.saturating_add(1) };
            self.write(&batch);
            self.note_gap();
            if self.anchored.elapsed() >= self.anchor_every {
                self.anchor();
            }
            self.flush();
            self.shared.queue.free(batch.len());
            batch.clear();
            if self.looked.elapsed() >= SLEEP {
                self.look();
            }
            self.sync(SLEEP);
            if self.sink.is_due() {
                self.rotate();
            }
        }
        self.look();
        self.note_gap();
        self.record("close", |_| {});
        if self.flush() {
            self.head();
        }
    }

    /// Adds records to what is pending, and writes when that is much.
    fn write(&mut self, batch: &Batch) {
        let piece = if self.sink.is_stream() { STREAM_PIECE } else { PIECE };
        for draft in batch.records() {
            self.add(draft);
            if self.chain.bytes().len() >= piece {
                if !self.flush() {
                    return;
                }
                if self.sink.is_due() {
                    self.rotate();
                }
            }
        }
    }

    fn add(&mut self, draft: Draft<'_>) {
        let Self { chain, redact, clock, .. } = self;
        chain.add(|out, seal| {
            event::head(out, clock.text(draft.at));
            out.extend_from_slice(draft.members);
            if let Some(text) = draft.held {
                event::arguments(out, text.len(), &seal.digest(text), Some(&redact(text)));
            }
        });
        self.records += 1;
    }

    /// A record of the writer's own, with a hash of its own: a file begins and ends with one.
    fn record(&mut self, kind: &str, more: impl FnOnce(&mut Vec<u8>)) {
        self.chain.close();
        self.chain.add(|out, _| {
            event::head(out, self.clock.text(SystemTime::now()));
            event::plain(out, name!("kind"), kind);
            more(out);
        });
        self.chain.close();
        self.records += 1;
    }

    /// The first record of a file, or of a process.
    fn open(&mut self, why: &str, found: &Found) {
        let output = self.sink.name();
        let keyed = self.chain.seal().is_keyed();
        let oldest = self.sink.oldest();
        self.record("open", |out| {
            event::text(out, name!("why"), why);
            event::text(out, name!("output"), output);
            event::text(out, name!("version"), env!("CARGO_PKG_VERSION"));
            out.extend_from_slice(if keyed { b",\"keyed\":true" } else { b",\"keyed\":false" });
            if let Some(oldest) = oldest {
                event::number(out, name!("oldest"), oldest);
            }
            if found.unclean {
                out.extend_from_slice(b",\"unclean\":true");
            }
            if found.torn > 0 {
                event::number(out, name!("torn_bytes"), found.torn);
            }
            if let Some((from, to)) = found.missing {
                event::number(out, name!("missing_from"), from);
                event::number(out, name!("missing_to"), to);
            }
            if let Some((from, to)) = found.gone {
                event::number(out, name!("gone_from"), from);
                event::number(out, name!("gone_to"), to);
            }
        });
        if self.flush() {
            self.head();
        }
    }

    /// How many records are missing here.
    fn note_gap(&mut self) {
        let lost = self.shared.gap.swap(0, Relaxed);
        if lost > 0 {
            self.record("gap", |out| event::number(out, name!("lost"), lost));
        }
    }

    /// A mark that says how far the trail went, in the trail, beside it and in the log.
    fn anchor(&mut self) {
        self.record("anchor", |_| {});
        self.anchored = Instant::now();
        if self.flush() && self.head() {
            let tip = self.chain.tip();
            let hash = tip.hash.as_str();
            tracing::info!(target: "audit", seq = tip.seq, hash, "audit anchor");
        }
    }

    /// After all that is written is on the disk: the mark must not know more than the trail, and no
    /// file may go before the record that lets it go is there to stay. False when the disk may not
    /// have it.
    fn head(&mut self) -> bool {
        self.sync(Duration::ZERO);
        if self.dirty {
            return false;
        }
        if let Err(error) = self.sink.note_head(self.chain.tip()) {
            tracing::warn!(%error, "the anchor beside the audit file cannot be written");
        }
        self.sink.sweep();
        true
    }

    /// Writes what is pending; tries until it works. Gives up only when the gateway ends.
    fn flush(&mut self) -> bool {
        self.chain.close();
        let mut attempts = 0;
        while self.written < self.chain.bytes().len() {
            let rest = self.chain.bytes().get(self.written..).unwrap_or(&[]);
            match self.sink.write(rest) {
                Ok(written) if written > 0 => self.written += written,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                result => {
                    if attempts == 0 {
                        let error = match result {
                            Ok(_) => "nothing was written".to_owned(),
                            Err(error) => error.to_string(),
                        };
                        tracing::error!(error, "the audit trail cannot be written; trying again");
                    }
                    attempts += 1;
                    self.shared.counters.set_failing(true);
                    let last = self.closing && attempts > LAST_ATTEMPTS;
                    if last || self.shared.hurry.load(Relaxed) {
                        return false;
                    }
                    std::thread::sleep(RETRY);
                }
            }
        }
        if attempts > 0 {
            tracing::warn!("the audit trail can be written again");
        }
        self.shared.counters.set_failing(false);
        self.shared.counters.wrote(std::mem::take(&mut self.records));
        self.dirty |= self.written > 0;
        self.chain.clear();
        self.written = 0;
        true
    }

    fn sync(&mut self, every: Duration) {
        if self.dirty && self.synced.elapsed() >= every {
            match self.sink.sync() {
                Ok(()) => self.dirty = false,
                Err(error) => tracing::error!(%error, "the audit trail may not be on the disk"),
            }
            self.synced = Instant::now();
        }
    }

    /// Goes on in a new file when somebody took this one away or cut it: what is written into it
    /// would be lost.
    fn look(&mut self) -> bool {
        self.looked = Instant::now();
        let Some(why) = self.sink.harm() else { return false };
        if !self.chain.bytes().is_empty() {
            return false;
        }
        let gone = loop {
            match self.sink.renew(self.chain.tip(), self.chain.seal()) {
                Ok(gone) => break gone,
                Err(error) if self.gives_up(&error, "begun anew") => return false,
                Err(_) => {}
            }
        };
        self.shared.counters.set_failing(false);
        let (from, to) = gone.unwrap_or_default();
        tracing::error!(
            why,
            from,
            to,
            "records of the audit trail are missing: somebody took its file away or cut it"
        );
        self.open(why, &Found { gone, ..Found::default() });
        true
    }

    /// Ends the file with a record that says so, and begins the next one.
    fn rotate(&mut self) {
        if self.look() {
            return;
        }
        self.record("rotate", |_| {});
        if !self.flush() {
            return;
        }
        self.head();
        while let Err(error) = self.sink.rotate(self.chain.tip()) {
            if self.look() || self.gives_up(&error, "set aside") {
                return;
            }
        }
        self.shared.counters.set_failing(false);
        self.open("rotated", &Found::default());
    }

    /// Waits before the next attempt, unless the gateway ends.
    fn gives_up(&self, error: &std::io::Error, what: &str) -> bool {
        tracing::error!(%error, "the audit file cannot be {what}; trying again");
        self.shared.counters.set_failing(true);
        if self.closing || self.shared.hurry.load(Relaxed) {
            return true;
        }
        std::thread::sleep(RETRY);
        false
    }
}
