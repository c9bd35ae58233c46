//! Adds, changes and removes the servers of the configuration file. Calls running at a replaced or
//! removed server finish first; new calls go to its replacement, or wait for it.

use std::sync::Arc;

use lockgate_config::Config;
use lockgate_upstream::{Client, Upstream};

use super::{App, Clients};

impl App {
    /// Returns a client for each configured server: the existing client if the server is reached in
    /// the same way, or a new, unstarted one.
    pub(super) fn clients(&self, config: &Config) -> anyhow::Result<Clients> {
        let old = self.clients.lock();
        let mut clients = Clients::new();
        for configured in &config.servers {
            let wanted = &*self.switches.apply(configured);
            let client = match old.get(&wanted.slug) {
                Some(old) if old.config().is_reached_alike(wanted) => Arc::clone(old),
                _ => Client::new(wanted.clone(), self.around.clone())?,
            };
            clients.insert(wanted.slug.clone(), client);
        }
        Ok(clients)
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
        let clients = clients.into_values().map(|client| client as Arc<dyn Upstream>);
        self.gateway.set_servers(clients.chain(builtin));
    }

    /// Returns the settings of each configured server, with the operators' switches applied.
    pub(super) fn settings(&self, config: &Config) -> Vec<lockgate_upstream::Config> {
        let mut settings = Vec::with_capacity(config.servers.len());
        for configured in &config.servers {
            settings.push(self.switches.apply(configured).into_owned());
        }
        settings
    }
}
