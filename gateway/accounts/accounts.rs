//! All accounts at all servers, in memory. The path of a request reads them without I/O; connecting
//! and refreshing happen beside it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use lockgate_egress::Connector;
use parking_lot::Mutex;
use serde_json::Value;
use url::Url;

use crate::account::Account;
use crate::config::{Config, Listing, ServerConfig};
use crate::connecting::{self, CallbackQuery, Connecting, Consent, Link, Started};
use crate::error::AccountError;
use crate::holder::Holder;
use crate::registration::{CALLBACK_PATH, DOCUMENT_PATH, document};
use crate::server::AccountServer;

/// Maximum number of accounts at a server.
const MAX_ACCOUNTS: usize = 100_000;

/// Accounts at the servers of the configuration.
pub struct Accounts {
    connector: Arc<Connector>,
    egress: lockgate_egress::Config,
    inner: Mutex<Inner>,
    connecting: Mutex<Connecting>,
}

#[derive(Default)]
struct Inner {
    public_url: Option<Url>,
    servers: BTreeMap<String, ServerAccounts>,
}

/// The accounts at one server.
#[derive(Clone)]
struct ServerAccounts {
    server: Arc<AccountServer>,
    /// The gateway's own. Where callers have their own accounts, it has no credential, and collects
    /// the challenges of connections for lists.
    own: Arc<Account>,
    of_users: Arc<Mutex<HashMap<Holder, Arc<Account>>>>,
}

/// The accounts of a configuration that is about to be used.
pub struct PreparedAccounts {
    inner: Inner,
    kept: BTreeSet<String>,
}

impl PreparedAccounts {
    /// Returns the gateway's own account at a server.
    #[must_use]
    pub fn own(&self, slug: &str) -> Option<Arc<Account>> {
        self.inner.servers.get(slug).map(|accounts| Arc::clone(&accounts.own))
    }

    /// Returns the settings of a server's accounts.
    #[must_use]
    pub fn config(&self, slug: &str) -> Option<&ServerConfig> {
        self.inner.servers.get(slug).map(|accounts| &accounts.server.config)
    }

    /// Returns whether the accounts at a server are those that are in use.
    #[must_use]
    pub fn is_kept(&self, slug: &str) -> bool {
        self.kept.contains(slug)
    }
}

impl Accounts {
    #[must_use]
    pub fn new(connector: Arc<Connector>, egress: lockgate_egress::Config) -> Arc<Self> {
        let connecting = Mutex::default();
        Arc::new(Self { connector, egress, inner: Mutex::default(), connecting })
    }

    /// Prepares the accounts of a configuration. Accounts at servers with unchanged settings are
    /// kept.
    #[must_use]
    pub fn prepare(&self, config: &Config) -> PreparedAccounts {
        let known = self.inner.lock();
        let mut inner = Inner { public_url: config.public_url.clone(), ..Inner::default() };
        let mut kept = BTreeSet::new();
        for (slug, wanted) in &config.servers {
            let accounts = match known.servers.get(slug) {
                Some(accounts) if accounts.server.is_alike(wanted, config.public_url.as_ref()) => {
                    kept.insert(slug.clone());
                    accounts.clone()
                }
                _ => self.make(slug, wanted, config.public_url.as_ref()),
            };
            inner.servers.insert(slug.clone(), accounts);
        }
        PreparedAccounts { inner, kept }
    }

    fn make(&self, slug: &str, wanted: &ServerConfig, public_url: Option<&Url>) -> ServerAccounts {
        let connector = Arc::clone(&self.connector);
        let server = AccountServer::new(slug, wanted, public_url, connector, &self.egress);
        let server = Arc::new(server);
        let own = Arc::new(Account::new(None, Arc::clone(&server)));
        ServerAccounts { server, own, of_users: Arc::default() }
    }

    /// Puts prepared accounts into use.
    pub fn adopt(&self, prepared: PreparedAccounts) {
        *self.inner.lock() = prepared.inner;
    }

    /// Returns the gateway's own account at a server.
    #[must_use]
    pub fn own(&self, slug: &str) -> Option<Arc<Account>> {
        self.inner.lock().servers.get(slug).map(|accounts| Arc::clone(&accounts.own))
    }

    /// Returns the source of the lists of a server with accounts of users.
    #[must_use]
    pub fn listing_of(&self, slug: &str) -> Option<Listing> {
        let inner = self.inner.lock();
        let config = &inner.servers.get(slug)?.server.config;
        config.method.is_per_user().then_some(config.listing)
    }

    /// Returns the account of a holder, if the holder has connected one before.
    #[must_use]
    pub fn find(&self, slug: &str, holder: &Holder) -> Option<Arc<Account>> {
        let of_users = Arc::clone(&self.inner.lock().servers.get(slug)?.of_users);
        of_users.lock().get(holder).cloned()
    }

    /// Returns the account of a holder at a server with accounts of users, for connecting it.
    fn of_user(&self, slug: &str, holder: &Holder) -> Result<Arc<Account>, AccountError> {
        let inner = self.inner.lock();
        let accounts = inner.servers.get(slug);
        let Some(accounts) = accounts.filter(|known| known.server.config.method.is_per_user())
        else {
            return Err(AccountError::Invalid("the server has no accounts of users".into()));
        };
        let mut of_users = accounts.of_users.lock();
        if of_users.len() >= MAX_ACCOUNTS && !of_users.contains_key(holder) {
            of_users.retain(|_, account| account.is_connected());
        }
        if of_users.len() >= MAX_ACCOUNTS && !of_users.contains_key(holder) {
            return Err(AccountError::Internal("too many accounts are connected"));
        }
        let account = of_users.entry(holder.clone()).or_insert_with(|| {
            Arc::new(Account::new(Some(holder.clone()), Arc::clone(&accounts.server)))
        });
        Ok(Arc::clone(account))
    }

    /// Returns a link with which the holder connects an account at a server.
    ///
    /// # Errors
    /// Too many links are open, or the public address is not configured.
    pub fn link(&self, slug: &str, holder: &Holder) -> Result<Link, AccountError> {
        let public_url = self.public_url()?;
        self.connecting.lock().link(slug, holder, &public_url)
    }

    /// Returns whether a link was made for this holder; `None` if it is unknown or has expired.
    #[must_use]
    pub fn is_link_of(&self, slug: &str, id: &str, holder: &Holder) -> Option<bool> {
        let of = self.connecting.lock().holder_of(slug, id)?;
        Some(of == *holder)
    }

    /// Describes the authorization that a holder is about to start.
    ///
    /// # Errors
    /// The server has no such accounts, or its authorization server cannot be used.
    pub async fn describe(&self, slug: &str, holder: &Holder) -> Result<Consent, AccountError> {
        let account = self.of_user(slug, holder)?;
        connecting::describe(&account).await
    }

    /// Starts an authorization.
    ///
    /// # Errors
    /// As for [`Self::describe`].
    pub async fn start(&self, slug: &str, holder: Holder) -> Result<Started, AccountError> {
        let public_url = self.public_url()?;
        let account = self.of_user(slug, &holder)?;
        connecting::start(&self.connecting, account, holder, &public_url).await
    }

    /// Returns the name of the cookie for a response with this state.
    #[must_use]
    pub fn cookie_name(&self, state: &str) -> Option<String> {
        let public_url = self.public_url().ok()?;
        Some(connecting::cookie_name(&public_url, state))
    }

    /// Completes an authorization. Returns the server and the holder; `None` for a response that no
    /// attempt of this browser awaits, after which no request was sent.
    pub async fn finish(
        &self,
        query: CallbackQuery<'_>,
        cookie: Option<&str>,
    ) -> Option<(String, Holder, Result<(), AccountError>)> {
        let attempt = self.connecting.lock().take(query.state, cookie)?;
        let slug = attempt.account.server.slug.clone();
        let holder = attempt.holder.clone();
        Some((slug, holder, attempt.finish(query).await))
    }

    /// Returns the Client ID Metadata Document; `None` without accounts of users.
    #[must_use]
    pub fn client_document(&self) -> Option<Value> {
        let inner = self.inner.lock();
        inner.public_url.as_ref().map(document)
    }

    /// Returns the paths of the callback and of the client's document below the public address.
    #[must_use]
    pub fn paths() -> [&'static str; 2] {
        [CALLBACK_PATH, DOCUMENT_PATH]
    }

    fn public_url(&self) -> Result<Url, AccountError> {
        let url = self.inner.lock().public_url.clone();
        url.ok_or_else(|| AccountError::Setup("`http.public_url` is not set".into()))
    }
}
