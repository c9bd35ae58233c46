//! The lists of a connection that belongs to a client. A legacy server may change them for that
//! client alone ("log in", "enable a toolset"). They are read on that connection once it announces
//! a change, and stored as the difference from the lists for all clients.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwapOption;
use lockgate_protocol::method::Method;
use lockgate_protocol::revision::Era;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use crate::catalog::{Catalog, Item, ListHold, ListKind, ListMemory, NoRoom};

/// The lists with change announcements; templates and skills are announced with resources.
const ANNOUNCED: [ListKind; 3] = [ListKind::Tools, ListKind::Prompts, ListKind::Resources];

/// Lists announced as changed since the lists were last read. Clients are notified once the lists
/// have been read again, even if a list reads as before.
#[derive(Default)]
pub(crate) struct Announced(Mutex<Vec<ListKind>>);

impl Announced {
    pub(crate) fn add(&self, method: Method) {
        let kind = match method {
            Method::ToolsChanged => ListKind::Tools,
            Method::PromptsChanged => ListKind::Prompts,
            _ => ListKind::Resources,
        };
        let mut kinds = self.0.lock();
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }

    pub(crate) fn take(&self) -> Vec<ListKind> {
        std::mem::take(&mut *self.0.lock())
    }
}

/// The difference between the lists of a client's connection and those for all clients.
#[derive(Debug, Default)]
pub struct OwnLists {
    /// A hash of the difference, independent of the client.
    pub mark: [u8; 16],
    added: [Vec<Item>; ListKind::COUNT],
    removed: [Vec<Arc<str>>; ListKind::COUNT],
    _memory: ListMemory,
}

impl OwnLists {
    /// Returns the items that only this client has, or has with another definition.
    pub fn added(&self, kind: ListKind) -> &[Item] {
        &self.added[kind as usize]
    }

    /// Returns the keys of items that this client lacks.
    pub fn removed(&self, kind: ListKind) -> &[Arc<str>] {
        &self.removed[kind as usize]
    }

    /// Reports whether there is no difference.
    pub fn is_empty(&self) -> bool {
        self.kinds().is_empty()
    }

    /// Compares the lists of a connection with the shared lists, as offered to a client: `asked` is
    /// its era, if it is interactive.
    #[must_use]
    pub fn compare(own: &Catalog, shared: &Catalog, asked: Option<Era>) -> Self {
        let mut lists = Self::default();
        let gets_asking = asked.is_some() && shared.asking_era.is_none_or(|era| asked == Some(era));
        for kind in ListKind::ALL {
            let asking = if gets_asking { shared.asking_items(kind) } else { &[] };
            let all = shared.items(kind).iter().chain(asking);
            let known: HashMap<&str, &Item> = all.map(|item| (&*item.key, item)).collect();
            for item in own.items(kind) {
                if known.get(&*item.key).is_none_or(|known| known.text != item.text) {
                    lists.added[kind as usize].push(item.clone());
                }
            }
            // A list that was refused or is incomplete does not show which items the client lacks.
            if own.omitted.iter().any(|line| line.starts_with(kind.member())) {
                continue;
            }
            let listed: HashSet<&str> = own.items(kind).iter().map(|item| &*item.key).collect();
            let removed = known.values().filter(|item| !listed.contains(&*item.key));
            let mut removed: Vec<_> = removed.map(|item| Arc::clone(&item.key)).collect();
            removed.sort_unstable();
            lists.removed[kind as usize] = removed;
        }
        lists.mark = lists.compute_mark();
        lists
    }

    fn compute_mark(&self) -> [u8; 16] {
        let mut hasher = blake3::Hasher::new();
        for kind in ListKind::ALL {
            for item in self.added(kind) {
                hasher.update(&(item.text.len() as u64).to_le_bytes()).update(&item.text);
            }
            hasher.update(&[0xff; 8]);
            for key in self.removed(kind) {
                hasher.update(&(key.len() as u64).to_le_bytes()).update(key.as_bytes());
            }
            hasher.update(&[0xff; 8]);
        }
        let mut mark = [0; 16];
        hasher.finalize_xof().fill(&mut mark);
        mark
    }

    /// Charges the difference to the memory for lists.
    pub(crate) fn with_memory(mut self, mut hold: ListHold) -> Result<Self, NoRoom> {
        for kind in ListKind::ALL {
            for item in self.added(kind) {
                hold.grow(item.bytes())?;
            }
            for key in self.removed(kind) {
                hold.grow(size_of::<Arc<str>>() + key.len())?;
            }
        }
        self._memory = hold.finish();
        Ok(self)
    }

    /// Returns the announced kinds that differ from the shared lists.
    pub(crate) fn kinds(&self) -> Vec<ListKind> {
        ANNOUNCED.into_iter().filter(|kind| self.differs_in(*kind)).collect()
    }

    fn differs_in(&self, kind: ListKind) -> bool {
        let mut with = ListKind::ALL.into_iter().filter(|one| one.announced_as() == kind);
        with.any(|one| !self.added(one).is_empty() || !self.removed(one).is_empty())
    }
}

#[derive(Default)]
pub(crate) struct OwnState {
    lists: ArcSwapOption<OwnLists>,
    announced: Announced,
    /// The number of announced changes, and the number covered by the last read.
    changes: AtomicU64,
    read: watch::Sender<u64>,
    /// Requests a read of the lists.
    stale: Notify,
}

impl OwnState {
    /// Returns the lists; empty while a change is read.
    pub(crate) fn lists(&self) -> Option<Arc<OwnLists>> {
        self.lists.load_full().or_else(|| self.is_pending().then(Arc::default))
    }

    fn is_pending(&self) -> bool {
        *self.read.borrow() < self.changes.load(Ordering::Acquire)
    }

    pub(crate) fn announce(&self, method: Method) {
        self.announced.add(method);
        self.read_again();
    }

    /// Requests a read of the lists, because a change may have been missed.
    pub(crate) fn read_again(&self) {
        self.changes.fetch_add(1, Ordering::AcqRel);
        self.stale.notify_one();
    }

    /// Requests a read of lists that differ, because the shared lists have changed.
    pub(crate) fn compare_again(&self) {
        if self.lists.load().is_some() {
            self.stale.notify_one();
        }
    }

    /// Waits until all changes announced so far have been read.
    pub(crate) async fn settle(&self) {
        let wanted = self.changes.load(Ordering::Acquire);
        let _ = self.read.subscribe().wait_for(|read| *read >= wanted).await;
    }

    /// Returns the announced kinds and the number of changes so far.
    pub(crate) fn begin_reading(&self) -> (Vec<ListKind>, u64) {
        let until = self.changes.load(Ordering::Acquire);
        (self.announced.take(), until)
    }

    /// Waits until the lists have to be read. Cancel safe.
    pub(crate) async fn wait_until_stale(&self) {
        self.stale.notified().await;
    }

    pub(crate) fn replace(&self, lists: Option<OwnLists>) -> Option<Arc<OwnLists>> {
        self.lists.swap(lists.map(Arc::new))
    }

    pub(crate) fn set_read(&self, until: u64) {
        self.read.send_replace(until);
    }
}

#[cfg(test)]
mod tests;
