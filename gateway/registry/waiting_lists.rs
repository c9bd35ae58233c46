//! Lists of integrations that wait a little to be written, so that those that change without end
//! are written once. Nobody waits for the store, and what it refuses is only said in the log.

use std::collections::HashMap;
use std::time::Duration;

use lockgate_store::{KnownLists, MAX_LISTS, Store};
use parking_lot::Mutex;
use tokio::sync::Notify;

/// How long lists wait for newer ones.
const PAUSE: Duration = Duration::from_secs(3);
/// Most bytes that wait; more are not kept.
const MAX_WAITING: usize = 32 << 20;
/// How long the end waits for what is still to be written.
const LAST: Duration = Duration::from_secs(2);

/// Lists that wait to be written, by integration.
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

    /// What waits of one version of an integration is of another one.
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

    /// Writes what comes, for as long as it is polled.
    pub(crate) async fn write_all(&self, store: &Store) {
        loop {
            self.come.notified().await;
            tokio::time::sleep(PAUSE).await;
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

    /// Writes what still waits, within a bound.
    pub(crate) async fn write_last(&self, store: &Store) {
        let _ = tokio::time::timeout(LAST, self.write(store)).await;
    }
}
