//! Reads the lists of a connected server again, and notifies clients of lists announced during the
//! reading.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::catalog::{Catalog, ListKind};
use crate::connection::{Connection, ServerTransport};
use crate::failure::UpstreamErrorKind;
use crate::own_lists::ANNOUNCED;
use crate::shared::Shared;
use crate::{Announcement, Event, lists};

/// The capabilities that the gateway forwards to modern servers, declared when their lists are
/// read, which may depend on them.
pub(crate) const CARRIED: &[u8] = concat!(
    r#"{"elicitation":{"form":{},"url":{}},"sampling":{},"roots":{},"extensions":{"#,
    r#""io.modelcontextprotocol/tasks":{},"io.modelcontextprotocol/ui":"#,
    r#"{"mimeTypes":["text/html;profile=mcp-app"]}}}"#,
)
.as_bytes();

/// Reads the lists again; the status reports whether they could be read. An error means that the
/// connection is lost.
pub(crate) async fn refresh(shared: &Arc<Shared>, connection: &Connection) -> Result<(), String> {
    let before = shared.catalog.load_full();
    // Changes announced from here on cause another read.
    let announced = shared.announced.take();
    let read = read_again(shared, connection).await;
    shared.tell_announced(announced, &before);
    read
}

async fn read_again(shared: &Shared, connection: &Connection) -> Result<(), String> {
    let config = shared.config.load_full();
    let reading = lists::read(connection, &config.limits, CARRIED, shared.hold_lists());
    match tokio::time::timeout(config.start_timeout, reading).await {
        Ok(Ok(catalog)) => {
            let before = shared.catalog.load().version;
            shared.publish(catalog);
            if shared.catalog.load().version != before {
                for own in shared.sessions.all() {
                    own.own_lists().compare_again();
                }
            }
            if matches!(connection.transport, ServerTransport::Duplex(_)) {
                shared.interactive.stale.notify_one();
            }
        }
        Ok(Err(failure))
            if matches!(
                failure.kind,
                UpstreamErrorKind::Garbage
                    | UpstreamErrorKind::TooLarge
                    | UpstreamErrorKind::NoMemory
            ) =>
        {
            shared.set_list_failure(Some(&failure.words));
        }
        Ok(Err(failure)) => return Err(failure.words.to_string()),
        // It may be busy with other requests, and the old lists remain usable.
        Err(_) if !connection.outstanding.is_empty() && config.health.is_some() => {}
        Err(_) => {
            return Err("the server did not answer in time when its lists were refreshed".into());
        }
    }
    Ok(())
}

impl Shared {
    /// Announces lists that were announced by the server but read as before. Lists that differ need
    /// no announcement: their changes are published with the catalog.
    fn tell_announced(&self, announced: [bool; 3], before: &Catalog) {
        let after = self.catalog.load();
        let mut lists = Vec::new();
        for (said, kind) in announced.into_iter().zip(ANNOUNCED) {
            if said && reads_alike(before, &after, kind) {
                lists.push(kind);
            }
        }
        if !lists.is_empty() {
            let announcement = Announcement { server: self.id.clone(), session: None, lists };
            let _ = self.events().send(Event::Announced(announcement));
        }
    }
}

fn reads_alike(before: &Catalog, after: &Catalog, kind: ListKind) -> bool {
    let mut with = ListKind::ALL.into_iter().filter(|one| one.announced_as() == kind);
    with.all(|one| before.lists_alike(after, one))
}

/// Changes within this time are read once.
const SETTLE_DELAY: Duration = Duration::from_millis(250);
/// Longest pause between quick reads; the pause starts at `SETTLE_DELAY` and doubles.
const MAX_PAUSE: Duration = Duration::from_secs(1);
/// Time without announcements that resets the pause.
const QUIET_PERIOD: Duration = Duration::from_secs(5);
/// Interval between reads while the lists cannot be read.
const RETRY_INTERVAL: Duration = Duration::from_secs(30);

pub(crate) struct Rereading {
    due: Option<Instant>,
    /// When the latest read ended.
    ended: Option<Instant>,
    pause: Duration,
}

impl Rereading {
    pub(crate) fn new() -> Self {
        Self { due: None, ended: None, pause: SETTLE_DELAY }
    }

    pub(crate) fn announce(&mut self, now: Instant) {
        let soon = now + SETTLE_DELAY;
        let Some(ended) = self.ended else {
            self.due.get_or_insert(soon);
            return;
        };
        if self.due.is_none() && now > ended + QUIET_PERIOD.max(self.pause) {
            self.pause = SETTLE_DELAY;
        }
        // Sooner than a retry, which may be due later.
        let at = soon.max(ended + self.pause);
        self.due = Some(self.due.map_or(at, |due| due.min(at)));
    }

    /// Schedules a read after a change for a client, which may use it at once: the first read
    /// does not wait for further changes.
    pub(crate) fn announce_own(&mut self, now: Instant) {
        if self.ended.is_none_or(|ended| now > ended + QUIET_PERIOD.max(self.pause)) {
            self.pause = SETTLE_DELAY;
            self.due = Some(now);
        } else {
            self.announce(now);
        }
    }

    /// Schedules a read after a call could not connect, which reveals whether the server is gone.
    /// Sooner than for an announcement, but limited in rate.
    pub(crate) fn suspect(&mut self, now: Instant) {
        let earliest = self.ended.map_or(now, |ended| now.max(ended + SETTLE_DELAY));
        self.due = Some(self.due.map_or(earliest, |due| due.min(earliest)));
    }

    /// Records a read. The next read waits for at least the duration of this read.
    pub(crate) fn read(&mut self, began: Instant, ended: Instant) {
        self.pause = (self.pause * 2).min(MAX_PAUSE).max(ended.duration_since(began));
        (self.due, self.ended) = (None, Some(ended));
    }

    /// Schedules another read after lists could not be read.
    pub(crate) fn retry(&mut self, now: Instant) {
        self.due.get_or_insert(now + RETRY_INTERVAL);
    }

    /// Waits until a read is due; pending while nothing was announced. Cancel safe.
    pub(crate) async fn wait(&self) {
        match self.due {
            Some(due) => tokio::time::sleep_until(due.into()).await,
            None => std::future::pending().await,
        }
    }
}
