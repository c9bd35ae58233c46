//! Adds, changes and removes the servers of the configuration file. Calls running at a replaced or
//! removed server finish first; new calls go to its replacement, or wait for it.

use std::sync::Arc;

use lockgate_accounts::{Account, PreparedAccounts};
use lockgate_config::Config;
use lockgate_upstream::{Client, ServerSetupError, Surroundings, Upstream};

use super::{App, Clients};
use crate::user_clients::{AccountAuthorization, UserClients};

impl App {
    /// Returns a client for each configured server: the existing client if the server is reached in
    /// the same way, or a new, unstarted one.
    pub(super) fn clients(
        &self,
        config: &Config,
        accounts: &PreparedAccounts,
    ) -> anyhow::Result<Clients> {
        let old = self.clients.lock();
        let mut clients = Clients::new();
        for configured in &config.servers {
            let wanted = &*self.switches.apply(configured);
            let client = match old.get(&wanted.slug) {
                Some(old)
                    if old.config().is_reached_alike(wanted)
                        && (!wanted.has_authorization || accounts.is_kept(&wanted.slug)) =>
                {
                    Arc::clone(old)
                }
                _ => self.make_client(wanted.clone(), accounts.own(&wanted.slug))?,
            };
            clients.insert(wanted.slug.clone(), client);
        }
        Ok(clients)
    }

    /// Creates a client, with the gateway's own account at the server if it has one.
    pub(crate) fn make_client(
        &self,
        wanted: lockgate_upstream::Config,
        account: Option<Arc<Account>>,
    ) -> Result<Arc<Client>, ServerSetupError> {
        let authorization = account.map(AccountAuthorization::of_gateway);
        Client::new(wanted, Surroundings { authorization, ..self.around.clone() })
    }

    /// Starts the new clients and retires the old ones after their last calls. Until a new client
    /// has read its server's lists, it serves those of the old client.
    pub(crate) fn replace(&self, clients: Clients) {
        let old = std::mem::replace(&mut *self.clients.lock(), clients.clone());
        for (slug, client) in old {
            match clients.get(&slug) {
                Some(new) if Arc::ptr_eq(new, &client) => continue,
                Some(new) => {
                    tracing::info!(
                        server = slug,
                        "server reconnected: its running calls end first"
                    );
                    if new.config().enabled {
                        new.continue_from(&client);
                    }
                }
                None => {
                    tracing::info!(server = slug, "server removed: its running calls end first")
                }
            }
            self.retiring.retire(client);
        }
        for client in clients.values() {
            client.start();
        }
        let builtin = self.builtin.servers();
        if let Some(registry) = &self.registry {
            let slugs = clients.keys().cloned();
            registry
                .set_shared_slugs(slugs.chain(builtin.iter().map(|server| server.slug().into())));
        }
        let servers = self.serve_users(clients);
        self.gateway.directory.set_servers(servers.into_iter().chain(builtin));
    }

    /// Returns the servers, with a client for each user where callers have their own accounts.
    fn serve_users(&self, clients: Clients) -> Vec<Arc<dyn Upstream>> {
        let mut servers: Vec<Arc<dyn Upstream>> = Vec::with_capacity(clients.len());
        let mut known = self.user_clients.lock();
        let mut old = std::mem::take(&mut *known);
        for (slug, client) in clients {
            let settings = self.accounts.config(&slug);
            let Some(settings) = settings.filter(|known| known.method.is_per_user()) else {
                servers.push(client);
                continue;
            };
            let users = match old.remove(&slug) {
                Some(users) if Arc::ptr_eq(users.listing(), &client) => users,
                replaced => {
                    if let Some(replaced) = replaced {
                        replaced.retire(&self.retiring);
                    }
                    UserClients::new(client, settings, &self.around, &self.accounts)
                }
            };
            servers.push(Arc::clone(&users) as Arc<dyn Upstream>);
            known.insert(slug, users);
        }
        for users in old.into_values() {
            users.retire(&self.retiring);
        }
        servers
    }

    /// Returns the settings of each configured server, with the operators' switches applied.
    pub(super) fn settings(&self, config: &Config) -> Vec<lockgate_upstream::Config> {
        let configured = config.servers.iter();
        configured.map(|configured| self.switches.apply(configured).into_owned()).collect()
    }
}
