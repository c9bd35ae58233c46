//! Integrations at which each member of the organisation has its own account or key, as at servers
//! of the configuration with `auth`.

use std::sync::Arc;

use http::HeaderName;
use http::header::AUTHORIZATION;
use lockgate_accounts::{Method, ServerConfig};
use lockgate_registry::{Auth, CredentialState, IntegrationSnapshot, OrganisationSnapshot};
use lockgate_upstream::{Client, Surroundings};

use super::Tenants;
use crate::user_clients::{AccountAuthorization, UserClients};

impl Tenants {
    /// Sets the servers at which members of the organisation have accounts.
    pub(super) fn set_accounts(&self, snapshot: &OrganisationSnapshot, around: &Surroundings) {
        let wanted = snapshot
            .integrations
            .iter()
            .filter_map(|one| Some((one.slug.to_string(), self.account_settings(one)?)))
            .collect();
        self.accounts.set_organisation(&snapshot.organisation, &wanted, &around.connector);
    }

    /// Returns the settings of accounts at an integration.
    fn account_settings(&self, integration: &IntegrationSnapshot) -> Option<ServerConfig> {
        let CredentialState::OfMembers(auth) = &integration.credential else { return None };
        let method = if *auth == Auth::User { Method::User } else { Method::UserKey };
        let header = auth.header().and_then(|header| header.parse::<HeaderName>().ok());
        let addresses = self.addresses_of(integration);
        let settings = ServerConfig::of_members(method, integration.url.clone(), addresses);
        Some(ServerConfig { header: header.unwrap_or(AUTHORIZATION), ..settings })
    }

    /// Adds the gateway's own account, which collects the challenges of the connection for lists.
    pub(super) fn surround_members(
        &self,
        organisation: &str,
        integration: &IntegrationSnapshot,
        around: &Surroundings,
    ) -> Surroundings {
        let settings = self.account_settings(integration);
        let own = settings.zip(self.accounts.own(&integration.slug, organisation));
        let own = own.filter(|(settings, own)| own.has_settings(settings));
        let authorization = own.map(|(_, own)| AccountAuthorization::of_gateway(own));
        Surroundings { authorization, ..around.clone() }
    }

    /// Creates the clients of members with accounts at an integration.
    pub(super) fn make_users(
        &self,
        client: &Arc<Client>,
        integration: &IntegrationSnapshot,
        around: &Surroundings,
    ) -> Option<Arc<UserClients>> {
        let settings = self.account_settings(integration)?;
        Some(UserClients::new(Arc::clone(client), settings, around, &self.accounts))
    }

    /// Returns the clients of members with accounts at an integration.
    pub(crate) fn users(&self, organisation: &str, slug: &str) -> Option<Arc<UserClients>> {
        let organisations = self.organisations.lock();
        let mut all = organisations.get(organisation)?.integrations.values();
        all.find(|one| *one.integration.slug == *slug)?.clients.users.clone()
    }
}
