//! The state of OAuth at one server: its last challenge, its metadata, and the gateway's clients.

use std::sync::Arc;
use std::time::{Duration, Instant};

use lockgate_egress::Connector;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use url::Url;

use crate::challenge::Challenge;
use crate::config::{Method, ServerConfig};
use crate::discovery::{AuthorizationServer, Discovered, discover, find_server};
use crate::error::{AccountError, Result};
use crate::fetch::Fetcher;
use crate::grant::StoredClient;
use crate::records::{RecordPlace, Records};
use crate::registration::register;
use crate::token_endpoint::ClientIdentity;

/// Time for which a registered client is kept. A client that has ended is replaced when it is
/// rejected.
const CLIENT_LIFETIME: Duration = Duration::from_secs(3650 * 24 * 3600);
/// Maximum number of registered clients of an organisation.
const MAX_CLIENTS: usize = 1000;
/// Lifetime of cached metadata after a refused token.
const MIN_LIFETIME: Duration = Duration::from_millis(500);

/// The gateway's client at an authorization server, and the scopes that it registered.
#[derive(Serialize, Deserialize)]
struct RegisteredClient {
    #[serde(flatten)]
    client: StoredClient,
    #[serde(default)]
    scopes: Vec<String>,
}

pub(crate) struct AccountServer {
    pub(crate) slug: String,
    /// The organisation that has added the server; empty for the operator's.
    organisation: Arc<str>,
    pub(crate) config: ServerConfig,
    pub(crate) fetcher: Fetcher,
    challenge: Mutex<Option<Challenge>>,
    /// Locked during a fetch, so that concurrent callers share its result.
    discovered: tokio::sync::Mutex<Option<(Instant, Arc<Discovered>)>>,
    /// As `discovered`, of the provider of identity assertions.
    provider: tokio::sync::Mutex<Option<(Instant, Arc<AuthorizationServer>)>>,
    records: Arc<Records>,
    /// Locked during a registration, so that concurrent callers share its client.
    registering: tokio::sync::Mutex<()>,
}

impl AccountServer {
    pub(crate) fn new(
        (organisation, slug): (&Arc<str>, &str),
        config: &ServerConfig,
        connector: Arc<Connector>,
        records: &Arc<Records>,
    ) -> Self {
        let provider = config.provider.as_ref().map(|(issuer, _)| issuer);
        let issuers = config.issuer.iter().chain(provider);
        let issuers: Vec<Url> = issuers.filter_map(|issuer| Url::parse(issuer).ok()).collect();
        let named: Vec<&Url> = std::iter::once(&config.url).chain(&issuers).collect();
        Self {
            slug: slug.to_owned(),
            organisation: Arc::clone(organisation),
            fetcher: Fetcher::new(connector, &named, config.addresses),
            config: config.clone(),
            records: Arc::clone(records),
            challenge: Mutex::default(),
            discovered: tokio::sync::Mutex::default(),
            provider: tokio::sync::Mutex::default(),
            registering: tokio::sync::Mutex::default(),
        }
    }

    /// Returns the stored method of authentication of an integration; `None` for servers of the
    /// operator.
    pub(crate) fn integration_auth(&self) -> Option<&'static str> {
        match self.config.method {
            _ if self.organisation.is_empty() => None,
            Method::User => Some("user"),
            Method::UserKey => Some("user_headers"),
            _ => None,
        }
    }

    /// Records a challenge of the server.
    pub(crate) fn note(&self, challenge: &Challenge) {
        let mut known = self.challenge.lock();
        let known = known.get_or_insert_default();
        if challenge.resource_metadata.is_some() {
            known.resource_metadata.clone_from(&challenge.resource_metadata);
        }
        // Scopes of an operation are recorded with the account that needs them.
        if challenge.scope.is_some() && !challenge.is_insufficient_scope() {
            known.scope.clone_from(&challenge.scope);
        }
    }

    /// Returns the scopes of the server's last challenge.
    pub(crate) fn challenged_scopes(&self) -> Vec<String> {
        self.challenge.lock().as_ref().map(Challenge::scopes).unwrap_or_default()
    }

    /// Returns the server's authorization server. Concurrent callers share a single search.
    pub(crate) async fn discovered(&self) -> Result<Arc<Discovered>> {
        let mut known = self.discovered.lock().await;
        if let Some((at, found)) = &*known
            && at.elapsed() < found.lifetime
        {
            return Ok(Arc::clone(found));
        }
        let challenge = self.challenge.lock().clone();
        let issuer = self.config.issuer.as_deref();
        let found = discover(&self.fetcher, &self.config.url, challenge.as_ref(), issuer).await?;
        let found = Arc::new(found);
        *known = Some((Instant::now(), Arc::clone(&found)));
        Ok(found)
    }

    /// Returns the authorization server that issued a grant. It may be another than the first that
    /// can be reached.
    pub(crate) async fn discovered_for(&self, issuer: &str) -> Result<Arc<Discovered>> {
        let found = self.discovered().await?;
        if found.server.issuer == issuer {
            return Ok(found);
        }
        if !found.issuers.iter().any(|named| named == issuer) {
            return Err(AccountError::InvalidGrant);
        }
        let server = find_server(&self.fetcher, issuer).await;
        let server = server.map_err(|error| AccountError::Unreachable(error.to_string()))?;
        Ok(Arc::new(Discovered { server, ..Discovered::clone(&found) }))
    }

    /// Returns the issuer of identity assertions, and the gateway's client there.
    pub(crate) async fn provider(
        &self,
    ) -> Result<Option<(Arc<AuthorizationServer>, &ClientIdentity)>> {
        let Some((issuer, client)) = &self.config.provider else { return Ok(None) };
        let mut known = self.provider.lock().await;
        if let Some((at, found)) = &*known
            && at.elapsed() < found.lifetime
        {
            return Ok(Some((Arc::clone(found), client)));
        }
        let found = Arc::new(find_server(&self.fetcher, issuer).await?);
        *known = Some((Instant::now(), Arc::clone(&found)));
        Ok(Some((found, client)))
    }

    /// Returns the gateway's client at an authorization server, and registers it if necessary.
    pub(crate) async fn client(
        &self,
        server: &AuthorizationServer,
        scopes: &[String],
    ) -> Result<ClientIdentity> {
        if let Some(client) = &self.config.client {
            return Ok(client.clone());
        }
        let public_url = &self.records.public_url()?;
        let _registering = self.registering.lock().await;
        let place = self.client_place(&server.issuer, public_url);
        let mut scopes = scopes.to_vec();
        if let Some(known) = self.records.find::<RegisteredClient>(&place).await? {
            if scopes.iter().all(|scope| known.scopes.contains(scope)) {
                return Ok(known.client.identity(&self.config));
            }
            // Some servers grant a client no scope that it did not register.
            scopes.extend(known.scopes);
            scopes.sort();
            scopes.dedup();
        }
        let client = register(&self.fetcher, server, public_url, &scopes).await?;
        let registered = RegisteredClient { client: StoredClient::new(&client), scopes };
        self.records.keep(place, &registered, CLIENT_LIFETIME, MAX_CLIENTS).await?;
        Ok(client)
    }

    /// Forgets metadata that was not fetched just now.
    pub(crate) async fn forget_metadata(&self) {
        let mut known = self.discovered.lock().await;
        if matches!(&*known, Some((at, _)) if at.elapsed() > MIN_LIFETIME) {
            *known = None;
        }
    }

    /// Forgets metadata, and the client that the authorization server rejected, unless another
    /// gateway has registered a new one.
    pub(crate) async fn forget_client(&self, issuer: &str, id: &str) {
        *self.discovered.lock().await = None;
        if let Err(error) = self.remove_client(issuer, id).await {
            tracing::warn!("a rejected client is still stored: {error}");
        }
    }

    async fn remove_client(&self, issuer: &str, id: &str) -> Result<()> {
        let place = self.client_place(issuer, &self.records.public_url()?);
        let known = self.records.find::<RegisteredClient>(&place).await?;
        if known.is_some_and(|known| known.client.id == id) {
            self.records.remove(&place).await?;
        }
        Ok(())
    }

    /// Names the client at an authorization server. Clients have a fixed redirect URI, and
    /// organisations do not share them.
    fn client_place(&self, issuer: &str, public_url: &Url) -> RecordPlace {
        let organisation = &self.organisation;
        let name = format!("{issuer} {public_url} {organisation}");
        RecordPlace::new("client", &name, organisation)
    }
}
