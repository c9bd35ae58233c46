//! The connections of one server that belong to one client each. When there is no room for
//! another, the one that has been idle for longest goes.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::OnceCell;

use crate::connection::Connection;

/// Most connections of one server that clients have of their own.
pub(crate) const MAX_SESSIONS: usize = 1024;
/// The same where each is a process.
pub(crate) const MAX_PROCESSES: usize = 16;
/// A client that was answered just now may be about to call again.
const SETTLED: Duration = Duration::from_secs(10);
/// How long a connection may take to end.
pub(crate) const GRACE: Duration = Duration::from_secs(2);

/// The connections of one server that are not shared.
#[derive(Default)]
pub(crate) struct Sessions(Mutex<HashMap<u64, Slot>>);

pub(crate) type Slot = Arc<OnceCell<Arc<Connection>>>;

impl Sessions {
    /// The slot of a client; `None` when there are `most` and all of them are at work.
    pub(crate) fn slot(&self, key: u64, most: usize) -> Option<Slot> {
        let mut slots = self.0.lock();
        if let Some(slot) = slots.get(&key) {
            return Some(Arc::clone(slot));
        }
        if slots.len() >= most {
            // What nobody opens any more has failed, or was given up.
            slots.retain(|_, slot| slot.initialized() || Arc::strong_count(slot) > 1);
        }
        if slots.len() >= most {
            let idlest = find_idlest(&slots)?;
            close(slots.remove(&idlest));
        }
        let slot = Slot::default();
        slots.insert(key, Arc::clone(&slot));
        Some(slot)
    }

    /// A session's connection, if there is one.
    pub(crate) fn find(&self, key: u64) -> Option<Arc<Connection>> {
        self.0.lock().get(&key)?.get().cloned()
    }

    /// Ends a session's connection in the background.
    pub(crate) fn forget(&self, key: u64) {
        close(self.0.lock().remove(&key));
    }

    /// Whether this is the slot of a client still.
    pub(crate) fn holds(&self, key: u64, slot: &Slot) -> bool {
        self.0.lock().get(&key).is_some_and(|known| Arc::ptr_eq(known, slot))
    }

    /// Forgets a connection of a client, if it is this one; whoever uses it keeps it.
    pub(crate) fn remove(&self, key: u64, lost: &Arc<Connection>) {
        let mut slots = self.0.lock();
        let known = slots.get(&key).and_then(|slot| slot.get());
        if known.is_some_and(|known| Arc::ptr_eq(known, lost)) {
            slots.remove(&key);
        }
    }

    /// Takes all of them, to be closed.
    pub(crate) fn take(&self) -> Vec<Arc<Connection>> {
        self.0.lock().drain().filter_map(|(_, slot)| slot.get().cloned()).collect()
    }
}

/// The client whose connection has been idle for longest, of those on which nothing runs.
fn find_idlest(slots: &HashMap<u64, Slot>) -> Option<u64> {
    let mut idlest: Option<(Instant, u64)> = None;
    for (key, slot) in slots {
        // One that is being opened is wanted.
        let Some(connection) = slot.get() else { continue };
        let heard = connection.last_heard();
        // One that has subscriptions would be opened again at once.
        let is_idle = connection.outstanding.is_empty()
            && connection.subscribed.lock().is_empty()
            && heard.elapsed() > SETTLED;
        if is_idle && idlest.is_none_or(|(since, _)| heard < since) {
            idlest = Some((heard, *key));
        }
    }
    idlest.map(|(_, key)| key)
}

/// Ends a connection in the background.
fn close(slot: Option<Slot>) {
    let connection = slot.and_then(|slot| slot.get().cloned());
    if let Some(connection) = connection {
        tokio::spawn(async move { connection.close(GRACE).await });
    }
}
