//! Adds, changes and removes the servers of the configuration file. Calls running at a replaced or
//! removed server finish first; new calls go to its replacement, or wait for it.

use std::sync::Arc;

use lockgate_accounts::{Account, PreparedAccounts, ServerConfig};
use lockgate_config::Config;
use lockgate_upstream::{Client, ServerSetupError, Surroundings};

use super::{App, Clients, ConfiguredServer};
use crate::server_clients::ServerClients;
use crate::user_clients::{AccountAuthorization, UserClients};

impl App {
    /// Returns the clients of each configured server: the existing ones if the server is reached in
    /// the same way, or new, unstarted ones.
    pub(super) fn clients(
        &self,
        config: &Config,
        accounts: &PreparedAccounts,
    ) -> anyhow::Result<Clients> {
        let old = self.clients.lock();
        let mut clients = Clients::new();
        for configured in &config.servers {
            let slug = &configured.slug;
            let mut wanted = configured.clone();
            let known = old.get(slug);
            if let Some(known) = known
                && *known.entry == *configured
            {
                wanted.enabled = known.clients.client.config().enabled;
            }
            let all = match known {
                Some(known)
                    if known.clients.client.config().is_reached_alike(&wanted)
                        && (!wanted.has_authorization || accounts.is_kept(slug)) =>
                {
                    known.clients.clone()
                }
                _ => self.make_clients(wanted, accounts.own(slug), accounts.config(slug))?,
            };
            let entry = Arc::new(configured.clone());
            clients.insert(slug.clone(), ConfiguredServer { entry, clients: all });
        }
        Ok(clients)
    }

    /// Creates the client of a server, with the gateway's own account if it has one, and the
    /// clients of users where callers have their own accounts.
    pub(crate) fn make_clients(
        &self,
        wanted: lockgate_upstream::Config,
        account: Option<Arc<Account>>,
        settings: Option<&ServerConfig>,
    ) -> Result<ServerClients, ServerSetupError> {
        let authorization = account.map(AccountAuthorization::of_gateway);
        let client = Client::new(wanted, Surroundings { authorization, ..self.around.clone() })?;
        let settings = settings.filter(|known| known.method.is_per_user());
        let users = settings.map(|settings| {
            let client = Arc::clone(&client);
            UserClients::new(client, settings.clone(), &self.around, &self.accounts)
        });
        Ok(ServerClients { client, users })
    }

    /// Starts the new clients and retires the old ones after their last calls. Until a new client
    /// has read its server's lists, it serves those of the old client.
    pub(crate) fn replace(&self, clients: &Clients) {
        let old = std::mem::replace(&mut *self.clients.lock(), clients.clone());
        for (slug, ConfiguredServer { clients: old, .. }) in old {
            match clients.get(&slug).map(|new| &new.clients) {
                Some(new) if Arc::ptr_eq(&new.client, &old.client) => continue,
                Some(new) => {
                    tracing::info!(
                        server = slug,
                        "server reconnected: its running calls end first"
                    );
                    if new.client.config().enabled {
                        new.client.continue_from(&old.client);
                    }
                }
                None => {
                    tracing::info!(server = slug, "server removed: its running calls end first")
                }
            }
            old.retire(&self.retiring);
        }
        for server in clients.values() {
            server.clients.client.start();
        }
        let builtin = self.builtin.servers();
        if let Some(registry) = &self.registry {
            let slugs = clients.keys().cloned();
            registry
                .set_shared_slugs(slugs.chain(builtin.iter().map(|server| server.slug().into())));
        }
        self.gateway
            .directory
            .set_servers(clients.values().map(|one| one.clients.server()).chain(builtin));
    }
}
