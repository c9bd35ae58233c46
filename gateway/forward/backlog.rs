//! The records that a receiver has not acknowledged: read from the audit trail's files on blocking
//! threads, with a persistent cursor. Unacknowledged records are read again after a failure.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use lockgate_telemetry::audit::{AuditCounters, Cursor, ForwardCounters, Records, Saved, Tail};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Interval of checks for new records.
const CHECK_INTERVAL: Duration = Duration::from_millis(200);
/// Shortest interval between writes of the cursor.
const SAVE_INTERVAL: Duration = Duration::from_secs(1);

/// The unacknowledged part of the audit trail for one receiver.
pub(super) struct Backlog {
    pub(super) to: &'static str,
    path: PathBuf,
    trail: Arc<AuditCounters>,
    pub(super) counters: Arc<ForwardCounters>,
    /// `None` during a read, and when records have to be read again.
    tail: Option<Tail>,
    cursor: Arc<Cursor>,
    /// Number of the last acknowledged record.
    pub(super) taken: u64,
    /// Number of the last record read.
    read: u64,
    /// Records read since the last acknowledgement, and the lost records among them.
    count: u64,
    lost: u64,
    /// Value of the written cursor, and the time of the last write.
    saved: u64,
    saved_at: Instant,
    is_told: bool,
}

impl Backlog {
    /// Continues after the cursor, or without a cursor with the first record of this process.
    pub(super) fn open(
        path: &Path,
        to: &'static str,
        trail: &Arc<AuditCounters>,
    ) -> anyhow::Result<Self> {
        let cursor = Cursor::new(path, to)?;
        let saved = cursor.read().with_context(|| format!("PATH.{to}.cursor"))?;
        let begun = trail.begun();
        let after = saved.after(begun);
        match saved {
            Saved::Unreadable => tracing::warn!(
                to,
                "the cursor of the audit trail cannot be read: all existing records are sent"
            ),
            Saved::Taken(last) if last > begun => tracing::warn!(
                to,
                last,
                begun,
                "the audit trail has fewer records than were sent: it was replaced or truncated"
            ),
            _ => {}
        }
        cursor.write(after).with_context(|| format!("PATH.{to}.cursor"))?;
        let counters = trail.forward(to);
        counters.sent.set(after);
        Ok(Self {
            to,
            path: path.to_owned(),
            trail: Arc::clone(trail),
            counters,
            tail: Some(Tail::new(path, after)?),
            cursor: Arc::new(cursor),
            taken: after,
            read: after,
            count: 0,
            lost: 0,
            saved: after,
            saved_at: Instant::now(),
            is_told: false,
        })
    }

    pub(super) fn waiting(&self) -> u64 {
        self.trail.last().saturating_sub(self.taken)
    }

    fn is_read(&self) -> bool {
        self.read >= self.trail.last()
    }

    /// Waits for an unacknowledged record; returns `false` at the end if none is left.
    pub(super) async fn wait(&mut self, ending: &CancellationToken) -> bool {
        while self.waiting() == 0 {
            if ending.is_cancelled() {
                return false;
            }
            if self.saved_at.elapsed() >= SAVE_INTERVAL {
                self.save().await;
            }
            tokio::select! {
                () = tokio::time::sleep(CHECK_INTERVAL) => {}
                () = ending.cancelled() => {}
            }
        }
        true
    }

    /// Waits until there may be unread records.
    pub(super) async fn more(&self) {
        loop {
            tokio::time::sleep(CHECK_INTERVAL).await;
            if !self.is_read() {
                return;
            }
        }
    }

    pub(super) async fn next(&mut self) -> Result<Option<Records>, ForwardError> {
        let tail = match self.tail.take() {
            Some(tail) => Ok(tail),
            None => Tail::new(&self.path, self.read),
        };
        let mut tail = tail.map_err(|error| ForwardError::new(&error))?;
        let read = tokio::task::spawn_blocking(move || {
            let read = tail.read();
            (tail, read)
        });
        let (tail, read) = read.await.map_err(|error| ForwardError::new(&error))?;
        let records = read.map_err(|error| ForwardError::new(&format!("audit file: {error}")))?;
        self.tail = Some(tail);
        if let Some(records) = &records {
            self.read = records.last;
            self.count += records.count;
            self.lost += records.lost;
        }
        Ok(records)
    }

    /// Counts the read records as sent, although they may still be lost.
    pub(super) fn set_sent(&self) {
        self.counters.sent.set(self.read);
    }

    /// Marks the read records as acknowledged.
    pub(super) async fn set_taken(&mut self) {
        self.taken = self.read;
        self.set_sent();
        self.counters.taken.add(std::mem::take(&mut self.count));
        let lost = std::mem::take(&mut self.lost);
        if lost > 0 {
            self.counters.lost.add(lost);
            tracing::error!(
                to = self.to,
                lost,
                "records of the audit trail were removed before they could be sent: increase \
                    audit.rotate_size or audit.keep"
            );
        }
        if self.saved_at.elapsed() >= SAVE_INTERVAL {
            self.save().await;
        }
    }

    /// Reads unacknowledged records again.
    pub(super) fn rewind(&mut self) {
        self.tail = None;
        self.read = self.taken;
        self.count = 0;
        self.lost = 0;
        self.set_sent();
    }

    /// Writes the cursor, if it has changed.
    pub(super) async fn save(&mut self) {
        self.saved_at = Instant::now();
        if self.saved == self.taken {
            return;
        }
        let cursor = Arc::clone(&self.cursor);
        let last = self.taken;
        let written = tokio::task::spawn_blocking(move || cursor.write(last)).await;
        match written.map_err(std::io::Error::other).flatten() {
            Ok(()) => {
                self.saved = last;
                self.is_told = false;
            }
            Err(error) => {
                if !std::mem::replace(&mut self.is_told, true) {
                    tracing::warn!(
                        to = self.to,
                        %error,
                        "the cursor of the audit trail could not be written: after a restart, \
                            records are sent again"
                    );
                }
            }
        }
    }
}

// Why delivery to a receiver failed, in words without secrets.

#[derive(Debug)]
pub(super) struct ForwardError {
    pub(super) words: String,
    /// Shortest pause before the next attempt.
    pub(super) pause: Duration,
}

impl ForwardError {
    pub(super) fn new(words: &impl ToString) -> Self {
        Self { words: words.to_string(), pause: Duration::ZERO }
    }
}
