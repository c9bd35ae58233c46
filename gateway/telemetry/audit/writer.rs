//! The writer thread of the trail: batches, anchors, rotation, and retries while writing fails. Its
//! memory is bounded by the queue, and by a pending write.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant, SystemTime};

use super::chain::{Chain, Seal, Tip};
use super::config::{Config, Output, Redact};
use super::event::{self, Clock, name};
use super::file::{ChainEnd, LogFile};
use super::queue::{Batch, Draft, Shared};

/// Approximate bytes per write to a file.
const WRITE_BYTES: usize = 256 * 1024;
/// Approximate bytes per write to a stream. A pipe accepts a write of this size as a whole, even if
/// the process is killed.
const STREAM_PIECE: usize = 3 * 1024;
/// Polling interval while records keep arriving, so that adding a record need not wake the writer.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// Polls without a record before the writer sleeps until woken.
const MAX_IDLE_POLLS: u32 = 20;
/// Maximum sleep, and the interval of syncs to disk and checks of the file.
const SYNC_INTERVAL: Duration = Duration::from_secs(1);
/// Pause between write attempts.
const RETRY_INTERVAL: Duration = Duration::from_millis(200);
/// Write attempts during shutdown.
const LAST_ATTEMPTS: u32 = 5;

pub(super) struct Writer {
    shared: Arc<Shared>,
    sink: Sink,
    /// The first `written` bytes of its pending records are written.
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
            chain: Chain::new(seal, tip, WRITE_BYTES),
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

    pub(super) fn run(mut self, found: &ChainEnd) {
        if let Some((from, to)) = found.missing {
            tracing::error!(from, to, "records of the audit trail are missing: it was truncated");
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
                0..MAX_IDLE_POLLS => std::thread::sleep(POLL_INTERVAL),
                _ => self.shared.queue.sleep(SYNC_INTERVAL),
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
            if self.looked.elapsed() >= SYNC_INTERVAL {
                self.look();
            }
            self.sync(SYNC_INTERVAL);
            self.rotate_if_due();
        }
        self.look();
        self.note_gap();
        self.record("close", |_| {});
        if self.flush() {
            self.head();
        }
    }

    /// Buffers the records, flushing whenever the buffer reaches the size of one write.
    fn write(&mut self, batch: &Batch) {
        let piece = if self.sink.file().is_some() { WRITE_BYTES } else { STREAM_PIECE };
        for draft in batch.records() {
            self.add(draft);
            if self.chain.bytes.len() >= piece {
                if !self.flush() {
                    return;
                }
                self.rotate_if_due();
            }
        }
    }

    fn add(&mut self, draft: Draft<'_>) {
        let Self { chain, redact, clock, .. } = self;
        chain.add(|out, seal| {
            clock.write(out, draft.at);
            out.extend_from_slice(draft.members);
            if let Some(text) = draft.held {
                event::arguments(out, text.len(), &seal.digest(text), Some(&redact(text)));
            }
        });
        self.records += 1;
    }

    /// Adds a record of the writer itself, such as the first and last of a file.
    fn record(&mut self, kind: &str, more: impl FnOnce(&mut Vec<u8>)) {
        self.chain.add(|out, _| {
            self.clock.write(out, SystemTime::now());
            event::plain(out, name!("kind"), kind);
            more(out);
        });
        self.records += 1;
    }

    /// Writes the first record of a file, or of a process.
    fn open(&mut self, why: &str, found: &ChainEnd) {
        let keyed = self.chain.seal.0.is_some();
        let oldest = self.sink.file().map(|file| file.oldest());
        let output = if oldest.is_some() { "file" } else { "stream" };
        let prev = self.chain.tip.hash.clone();
        self.record("open", |out| {
            event::plain(out, name!("prev"), prev.as_str());
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

    fn note_gap(&mut self) {
        let lost = self.shared.gap.swap(0, Relaxed);
        if lost > 0 {
            self.record("gap", |out| event::number(out, name!("lost"), lost));
        }
    }

    /// Writes an anchor to the trail, beside it and to the log.
    fn anchor(&mut self) {
        self.record("anchor", |_| {});
        self.anchored = Instant::now();
        if self.flush() && self.head() {
            let tip = &self.chain.tip;
            let hash = tip.hash.as_str();
            tracing::info!(target: "audit", seq = tip.seq, hash, "audit anchor");
        }
    }

    /// Stores the tip and removes released files, once all written records are on disk: the stored
    /// tip must not be ahead of the trail, and files may be removed only after the record of their
    /// removal is durable. Returns `false` if the disk may lack records.
    fn head(&mut self) -> bool {
        self.sync(Duration::ZERO);
        if self.dirty {
            return false;
        }
        if let Some(file) = self.sink.file() {
            if let Err(error) = file.note_head(&self.chain.tip) {
                tracing::warn!(%error, "the anchor beside the audit file cannot be written");
            }
            file.sweep();
        }
        true
    }

    /// Writes the pending records, retrying until it succeeds. Gives up only during shutdown.
    fn flush(&mut self) -> bool {
        let mut attempts = 0;
        while self.written < self.chain.bytes.len() {
            let rest = &self.chain.bytes[self.written..];
            let error = match self.sink.write(rest) {
                Ok(0) => "nothing was written".to_owned(),
                Ok(written) => {
                    self.written += written;
                    continue;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => error.to_string(),
            };
            if attempts == 0 {
                tracing::error!(error, "the audit trail cannot be written; retrying");
            }
            attempts += 1;
            self.shared.counters.failing.set(true);
            let last = self.closing && attempts > LAST_ATTEMPTS;
            if last || self.shared.hurry.load(Relaxed) {
                return false;
            }
            std::thread::sleep(RETRY_INTERVAL);
        }
        if attempts > 0 {
            tracing::warn!("the audit trail can be written again");
        }
        self.shared.counters.failing.set(false);
        self.shared.counters.written.add(std::mem::take(&mut self.records));
        self.dirty |= self.written > 0;
        self.chain.bytes.clear();
        self.written = 0;
        true
    }

    fn sync(&mut self, every: Duration) {
        if self.dirty && self.synced.elapsed() >= every {
            match self.sink.file().map_or(Ok(()), |file| file.sync()) {
                Ok(()) => self.dirty = false,
                Err(error) => tracing::error!(%error, "the audit trail cannot be synced to disk"),
            }
            self.synced = Instant::now();
        }
    }

    /// Continues in a new file if the current file was removed or truncated, because records
    /// written to it would be lost.
    fn look(&mut self) -> bool {
        self.looked = Instant::now();
        let Some(why) = self.sink.file().and_then(|file| file.harm()) else { return false };
        if !self.chain.bytes.is_empty() {
            return false;
        }
        let gone = loop {
            let tip = &self.chain.tip;
            let seal = &self.chain.seal;
            match self.sink.file().map_or(Ok(None), |file| file.renew(tip, seal)) {
                Ok(gone) => break gone,
                Err(error) if self.gives_up(&error, "recreated") => return false,
                Err(_) => {}
            }
        };
        self.shared.counters.failing.set(false);
        let (from, to) = gone.unwrap_or_default();
        tracing::error!(
            why,
            from,
            to,
            "records of the audit trail are missing: its file was removed, replaced or truncated"
        );
        self.open(why, &ChainEnd { gone, ..ChainEnd::default() });
        true
    }

    /// Ends a file that is due with a `rotate` record, and begins the next file.
    fn rotate_if_due(&mut self) {
        let is_due = self.sink.file().is_some_and(|file| file.is_due());
        if !is_due || self.look() {
            return;
        }
        self.record("rotate", |_| {});
        if !self.flush() {
            return;
        }
        self.head();
        let tip = self.chain.tip.clone();
        while let Err(error) = self.sink.file().map_or(Ok(()), |file| file.rotate(&tip)) {
            if self.look() || self.gives_up(&error, "rotated") {
                return;
            }
        }
        self.shared.counters.failing.set(false);
        self.open("rotated", &ChainEnd::default());
    }

    /// Logs a failure and waits before the next attempt. Returns `true` during shutdown.
    fn gives_up(&self, error: &io::Error, what: &str) -> bool {
        tracing::error!(%error, "the audit file cannot be {what}; retrying");
        self.shared.counters.failing.set(true);
        if self.closing || self.shared.hurry.load(Relaxed) {
            return true;
        }
        std::thread::sleep(RETRY_INTERVAL);
        false
    }
}

// The output of the trail: a stream of the process, or a rotated file. Failed writes are not
// retried here.

pub(super) enum Sink {
    Stream(File),
    File(Box<LogFile>),
}

impl Sink {
    /// Opens the output and finds the end of its chain.
    pub(super) fn open(config: &Config, seal: &Seal) -> Result<(Self, Tip, ChainEnd), io::Error> {
        // Duplicates, because the standard library's streams would buffer unwritten bytes.
        let stream = match &config.output {
            Output::Stdout => io::stdout().as_fd().try_clone_to_owned()?,
            Output::Stderr => io::stderr().as_fd().try_clone_to_owned()?,
            Output::File(path) => {
                let (file, tip, found) = LogFile::open(path, config, seal)?;
                return Ok((Self::File(Box::new(file)), tip, found));
            }
        };
        Ok((Self::Stream(stream.into()), Tip::default(), ChainEnd::default()))
    }

    /// Returns the file, if the output is not a stream.
    pub(super) fn file(&mut self) -> Option<&mut LogFile> {
        match self {
            Self::Stream(_) => None,
            Self::File(file) => Some(file),
        }
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Stream(stream) => stream.write(bytes),
            Self::File(file) => file.write(bytes),
        }
    }
}
