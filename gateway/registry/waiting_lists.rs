//! A write-behind buffer for the lists of integrations. It coalesces frequent changes into a single
//! write. Callers never wait for the store, and its errors are only logged.

use std::collections::HashMap;
use std::time::Duration;

use lockgate_store::{KnownLists, MAX_LISTS, Store};
use parking_lot::Mutex;
use tokio::sync::Notify;

/// How long lists are held back for newer lists.
const HOLD_BACK_PERIOD: Duration = Duration::from_secs(3);
/// Maximum number of waiting bytes; further lists are dropped.
const MAX_WAITING: usize = 32 << 20;
/// Timeout of the final write at shutdown.
const FINAL_WRITE_TIMEOUT: Duration = Duration::from_secs(2);

#[derive(Default)]
pub(crate) struct WaitingLists {
    waiting: Mutex<HashMap<String, KnownLists>>,
    come: Notify,
}

impl WaitingLists {
    pub(crate) fn add(&self, lists: KnownLists) {
        let mut waiting = self.waiting.lock();
        let mut bytes = lists.content.len();
        for other in waiting.values() {
            if other.integration != lists.integration {
                bytes += other.content.len();
            }
        }
        if lists.content.len() > MAX_LISTS || bytes > MAX_WAITING {
            let integration = lists.integration;
            tracing::debug!(integration, bytes, "its lists are not kept: there are too many");
            return;
        }
        waiting.insert(lists.integration.clone(), lists);
        self.come.notify_one();
    }

    /// Moves the waiting lists of an integration from its version `old` to `new`.
    pub(crate) fn carry(&self, integration: &str, old: i64, new: i64) {
        if let Some(lists) = self.waiting.lock().get_mut(integration)
            && lists.version == old
        {
            lists.version = new;
        }
    }

    fn take(&self) -> Vec<KnownLists> {
        let waiting = std::mem::take(&mut *self.waiting.lock());
        waiting.into_values().collect()
    }

    /// Writes lists as they are added. Never returns.
    pub(crate) async fn write_all(&self, store: &Store) {
        loop {
            self.come.notified().await;
            tokio::time::sleep(HOLD_BACK_PERIOD).await;
            self.write(store).await;
        }
    }

    async fn write(&self, store: &Store) {
        let all = self.take();
        if all.is_empty() {
            return;
        }
        if let Err(error) = store.keep_lists(&all).await {
            tracing::warn!(integrations = all.len(), %error, "lists are not kept for a restart");
        }
    }

    /// Writes the remaining lists, with a timeout.
    pub(crate) async fn write_last(&self, store: &Store) {
        let _ = tokio::time::timeout(FINAL_WRITE_TIMEOUT, self.write(store)).await;
    }
}
