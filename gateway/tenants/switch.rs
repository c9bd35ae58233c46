//! Connects and disconnects integrations at this gateway only, until they change or the gateway
//! restarts. The store is not changed.

use std::sync::Arc;

use lockgate_admin::Switch;
use lockgate_upstream::Upstream;

use super::{Tenants, WantedClient};

impl Tenants {
    /// Switches the connection of an integration. Returns `false` if there is none: the integration
    /// is unknown or disabled, or its credentials cannot be decrypted.
    pub(crate) fn switch(&self, organisation: &str, slug: &str, to: Switch) -> bool {
        let mut organisations = self.organisations.lock();
        let Some(tenant) = organisations.get_mut(organisation) else { return false };
        let mut all = tenant.integrations.values();
        let Some(old) = all.find(|one| *one.integration.slug == *slug).cloned() else {
            return false;
        };
        let is_on = old.clients.client.config().enabled;
        match to {
            Switch::Connect if is_on => {
                old.clients.client.revive();
                return true;
            }
            Switch::Disconnect if !is_on => return true,
            Switch::Connect | Switch::Disconnect | Switch::Reconnect => {}
        }
        let wanted = WantedClient {
            integration: &old.integration,
            old: Some(&old),
            is_on: to != Switch::Disconnect,
        };
        let snapshot = Arc::clone(&tenant.snapshot);
        let made = self.make_client(&snapshot.organisation, &tenant.around, wanted);
        let Some(connected) = made else { return false };
        connected.clients.client.start();
        connected.clients.client.revive();
        tenant.integrations.insert(Arc::clone(&old.integration.id), connected);
        self.serve(&snapshot, &tenant.integrations);
        old.clients.retire(&self.retiring);
        true
    }
}
