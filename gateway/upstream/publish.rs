//! The published lists of a server: replaced atomically by a new read, restored from an earlier
//! process or client, or dropped while the server is idle.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::UNIX_EPOCH;

use crate::Event;
use crate::catalog::Catalog;
use crate::list_memory::ListHold;
use crate::shared::Shared;
use crate::status::UpstreamState;

impl Shared {
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
        let _ = self.events().send(Event::Changed { server: self.id.clone() });
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
        let _ = self.events().send(Event::Changed { server: self.id.clone() });
        bytes
    }
}
