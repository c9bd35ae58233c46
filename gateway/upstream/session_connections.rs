//! The connections of one server that belong to one client session each.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::OnceCell;

use crate::connection::Connection;

/// Open connections by session; one more than this and the oldest sessions' calls share again.
pub(crate) const MAX_SESSIONS: usize = 1024;
/// How long a session's connection may take to end.
const GRACE: std::time::Duration = std::time::Duration::from_secs(2);

/// The connections of one server that are not shared.
#[derive(Default)]
pub(crate) struct Sessions(Mutex<HashMap<u64, Slot>>);

type Slot = Arc<OnceCell<Arc<Connection>>>;

impl Sessions {
    pub(crate) fn slot(&self, key: u64) -> Option<Slot> {
        let mut slots = self.0.lock();
        if slots.len() >= MAX_SESSIONS && !slots.contains_key(&key) {
            return None;
        }
        Some(Arc::clone(slots.entry(key).or_default()))
    }

    /// A session's connection, if there is one.
    pub(crate) fn find(&self, key: u64) -> Option<Arc<Connection>> {
        self.0.lock().get(&key)?.get().cloned()
    }

    /// Ends a session's connection in the background.
    pub(crate) fn forget(&self, key: u64) {
        let slot = self.0.lock().remove(&key);
        if let Some(connection) = slot.and_then(|s| s.get().cloned()) {
            tokio::spawn(async move { connection.close(GRACE).await });
        }
    }

    /// Forgets a session's connection; whoever uses it keeps it.
    pub(crate) fn remove(&self, key: u64) {
        self.0.lock().remove(&key);
    }

    /// Takes all of them, to be closed.
    pub(crate) fn take(&self) -> Vec<Arc<Connection>> {
        self.0.lock().drain().filter_map(|(_, slot)| slot.get().cloned()).collect()
    }
}
