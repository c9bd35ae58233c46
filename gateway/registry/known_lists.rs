//! The last good lists of integrations beyond a restart, for who serves them.

use lockgate_store::KnownLists;

use crate::registry::Registry;

impl Registry {
    /// Has the lists of an integration written soon. Returns at once.
    pub fn keep_lists(&self, lists: KnownLists) {
        self.waiting_lists.add(lists);
    }

    /// Lists that wait to be written are those of another version of their integration.
    pub fn carry_lists(&self, integration: &str, old: i64, new: i64) {
        self.waiting_lists.carry(integration, old, new);
    }

    /// The lists that an integration had, if it is as it was then and the store can be used now.
    pub async fn find_lists(&self, organisation: &str, integration: &str) -> Option<KnownLists> {
        match self.store.find_lists(organisation, integration).await {
            Ok(found) => found,
            Err(error) => {
                tracing::warn!(integration, %error, "what its lists were is not known");
                None
            }
        }
    }
}
