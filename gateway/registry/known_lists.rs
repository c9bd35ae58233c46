//! The last good lists of integrations, kept across a restart of the gateway.

use lockgate_store::KnownLists;

use crate::registry::Registry;

impl Registry {
    /// Queues the lists of an integration to be written. Returns at once.
    pub fn keep_lists(&self, lists: KnownLists) {
        self.waiting_lists.add(lists);
    }

    /// Moves waiting lists of an integration from its version `old` to `new`.
    pub fn carry_lists(&self, integration: &str, old: i64, new: i64) {
        self.waiting_lists.carry(integration, old, new);
    }

    /// Returns an integration's stored lists, if its version is unchanged and the store available.
    pub async fn find_lists(&self, organisation: &str, integration: &str) -> Option<KnownLists> {
        match self.store.find_lists(organisation, integration).await {
            Ok(found) => found,
            Err(error) => {
                tracing::warn!(integration, %error, "the stored lists cannot be read");
                None
            }
        }
    }
}
