//! Reads the lists of a connected server again, and publishes them: replaced atomically by a new
//! read, restored from an earlier process or client, or dropped while the server is idle. Also
//! reads the lists of a connection that belongs to a client, and notifies clients of announced
//! lists.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, UNIX_EPOCH};

use lockgate_protocol::revision::Era;

use crate::catalog::{Catalog, ListHold, ListKind};
use crate::connection::{Connection, ServerTransport};
use crate::failure::{Result, UpstreamErrorKind};
use crate::own_lists::OwnLists;
use crate::shared::Shared;
use crate::status::UpstreamState;
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
    match shared.read_lists(connection, CARRIED).await {
        Some(Ok(catalog)) => {
            let before = shared.catalog.load().version;
            shared.publish(catalog);
            if shared.catalog.load().version != before {
                for own in shared.sessions.all() {
                    own.receiver.own_lists.compare_again();
                }
            }
            if matches!(connection.transport, ServerTransport::Duplex(_)) {
                shared.interactive.stale.notify_one();
            }
        }
        Some(Err(failure))
            if matches!(
                failure.kind,
                UpstreamErrorKind::Garbage
                    | UpstreamErrorKind::TooLarge
                    | UpstreamErrorKind::NoMemory
            ) =>
        {
            shared.set_list_failure(Some(&failure.words));
        }
        Some(Err(failure)) => return Err(failure.words.to_string()),
        // It may be busy with other requests, and the old lists remain usable.
        None if !connection.outstanding.is_empty() && shared.config.load().health.is_some() => {}
        None => {
            return Err("the server did not answer in time when its lists were refreshed".into());
        }
    }
    Ok(())
}

impl Shared {
    /// Announces lists that were announced by the server but read as before. Lists that differ need
    /// no announcement: their changes are published with the catalog.
    fn tell_announced(&self, mut lists: Vec<ListKind>, before: &Catalog) {
        let after = self.catalog.load();
        lists.retain(|kind| reads_alike(before, &after, *kind));
        if !lists.is_empty() {
            self.announce(None, lists);
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

impl Shared {
    /// Reads the lists of a client's connection on every announced change, for as long as it is
    /// polled.
    pub(crate) async fn follow_own_lists(&self, connection: &Connection, asked: Option<Era>) {
        let state = &connection.receiver.own_lists;
        let mut rereading = Rereading::new();
        loop {
            state.wait_until_stale().await;
            rereading.announce_own(Instant::now());
            rereading.wait().await;
            let began = Instant::now();
            let (announced, until) = state.begin_reading();
            self.read_own_lists(connection, asked).await;
            state.set_read(until);
            rereading.read(began, Instant::now());
            self.announce(connection.receiver.behind.session_key(), announced);
        }
    }

    /// Reads the lists once. If that fails, the old lists stay.
    async fn read_own_lists(&self, connection: &Connection, asked: Option<Era>) {
        let own = match self.read_lists(connection, b"{}").await {
            Some(Ok(own)) => own,
            Some(Err(failure)) => {
                tracing::debug!(server = %self.id, %failure, "the lists of a client's own \
                    connection could not be read");
                return;
            }
            None => return,
        };
        let lists = OwnLists::compare(&own, &self.catalog.load(), asked);
        let state = &connection.receiver.own_lists;
        if lists.is_empty() {
            state.replace(None);
            return;
        }
        match lists.with_memory(self.hold_lists().count_all()) {
            Ok(lists) => {
                state.replace(Some(lists));
                connection.receiver.note_own_lists();
            }
            Err(_) => {
                tracing::warn!(server = %self.id, "not enough memory for the lists of a client's \
                    own connection");
                state.replace(None);
            }
        }
    }

    /// Drops the lists of a connection that has ended: its client gets the shared lists again.
    pub(crate) fn end_own_lists(&self, connection: &Connection) {
        let state = &connection.receiver.own_lists;
        let last = state.replace(None);
        state.set_read(u64::MAX);
        if let Some(last) = last {
            self.announce(connection.receiver.behind.session_key(), last.kinds());
        }
    }

    fn announce(&self, session: Option<u64>, lists: Vec<ListKind>) {
        self.tell(Event::Announced(Announcement { server: self.id.clone(), session, lists }));
    }

    /// Reads the lists on a connection; `None` if that takes longer than `start_timeout`.
    pub(crate) async fn read_lists(
        &self,
        connection: &Connection,
        capabilities: &[u8],
    ) -> Option<Result<Catalog>> {
        let config = self.config.load_full();
        let reading = lists::read(connection, &config.limits, capabilities, self.hold_lists());
        tokio::time::timeout(config.start_timeout, reading).await.ok()
    }

    pub(crate) fn hold_lists(&self) -> ListHold {
        match &self.around.part {
            Some(part) => part.hold_lists(),
            None => ListHold::of_operator(&self.around.budget),
        }
    }

    /// Publishes lists that were just read; the version changes only if they differ.
    pub(crate) fn publish(&self, mut catalog: Catalog) {
        self.read_at.store(self.now_ms(), Ordering::Relaxed);
        self.interactive.complete(&mut catalog);
        self.set_list_failure(catalog.refused.as_deref());
        self.replace_catalog(catalog);
    }

    /// Restores lists that an earlier process or client has read, unless lists have already been
    /// read.
    pub(crate) fn restore(&self, mut catalog: Catalog) {
        let mut hold = self.hold_lists();
        if hold.grow(catalog.bytes()).is_err() {
            tracing::debug!(server = %self.id, "not enough memory to restore its lists");
            return;
        }
        catalog.memory = hold.finish();
        catalog.read_at = catalog.read_at.or(Some(UNIX_EPOCH));
        self.replace_catalog(catalog);
    }

    fn replace_catalog(&self, mut catalog: Catalog) {
        let replacing = self.replacing.lock();
        let old = self.catalog.load();
        let is_of_before = catalog.read_at.is_some();
        if old.version > 0 && is_of_before {
            return;
        }
        let is_same = old.version > 0 && catalog.same_as(&old);
        if !is_of_before {
            self.remember(&catalog, is_same);
        }
        if is_same && old.read_at.is_none() {
            return;
        }
        for omitted in &catalog.omitted {
            tracing::warn!(server = %self.id, "left out: {omitted}");
        }
        catalog.version =
            if is_same { old.version } else { self.versions.fetch_add(1, Ordering::Relaxed) + 1 };
        self.catalog.store(Arc::new(catalog));
        drop(replacing);
        self.tell(Event::Changed { server: self.id.clone() });
    }

    /// Drops the lists of a resting server, which are reloaded on demand. Returns their size in
    /// bytes.
    pub(crate) fn forget_catalog(&self) -> usize {
        let replacing = self.replacing.lock();
        let old = self.catalog.load();
        if old.version == 0 || self.status.load().state != UpstreamState::Resting {
            return 0;
        }
        let bytes = old.bytes();
        self.catalog.store(Arc::default());
        self.interactive.forget();
        drop(replacing);
        tracing::debug!(server = %self.id, bytes, "its lists are evicted to make room for others");
        self.tell(Event::Changed { server: self.id.clone() });
        bytes
    }
}
