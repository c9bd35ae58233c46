//! All accounts at all servers. Grants are read from the store on first use; after that, the path
//! of a request reads them in memory, and changes by other gateways are followed.

mod follow;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Weak};

use lockgate_egress::Connector;
use lockgate_store::GrantFilter;
use parking_lot::Mutex;
use serde_json::Value;
use url::Url;

use crate::account::Account;
use crate::config::{Config, Method, ServerConfig};
use crate::connecting::{self, CallbackQuery, Consent, Started};
use crate::discovery::canonical;
use crate::error::{AccountError, Result};
use crate::grant::{Connection, ConnectionChanges, Grant};
use crate::holder::{DISCONNECTED, Holder, new_record, record_id};
use crate::links::{Link, LinkKeys};
use crate::records::{AccountObserver, Records, Storage};
use crate::registration::{CALLBACK_PATH, DOCUMENT_PATH, below, document};
use crate::server::AccountServer;

/// Maximum number of accounts at a server.
const MAX_ACCOUNTS: usize = 100_000;
/// Maximum number of callers' tokens at a server that exchanges them.
const MAX_EXCHANGED: usize = 10_000;

/// Accounts at the servers of the configuration.
pub struct Accounts {
    connector: Arc<Connector>,
    inner: Mutex<Inner>,
    /// The accounts at servers of organisations, which beside those have no such accounts.
    of_organisations: Mutex<HashMap<Arc<str>, Servers>>,
    records: Arc<Records>,
}

/// The accounts at each server, by its slug.
type Servers = BTreeMap<String, ServerAccounts>;

#[derive(Default)]
struct Inner {
    link_keys: Option<LinkKeys>,
    /// Whether `link_keys` are those of the configuration.
    has_own_keys: bool,
    servers: Servers,
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
    public_url: Option<Url>,
    kept: BTreeSet<String>,
}

impl PreparedAccounts {
    /// Returns the gateway's own account at a server.
    pub fn own(&self, slug: &str) -> Option<Arc<Account>> {
        self.inner.servers.get(slug).map(|accounts| Arc::clone(&accounts.own))
    }

    /// Returns the settings of a server's accounts.
    pub fn config(&self, slug: &str) -> Option<&ServerConfig> {
        self.inner.servers.get(slug).map(|accounts| &accounts.server.config)
    }

    /// Returns whether the accounts at a server are those that are in use.
    pub fn is_kept(&self, slug: &str) -> bool {
        self.kept.contains(slug)
    }
}

impl Accounts {
    /// Creates accounts with grants in a store; `None` keeps them in memory.
    pub fn new(connector: Arc<Connector>, storage: Option<Storage>) -> Arc<Self> {
        let records = Records::new(storage);
        let of_organisations = Mutex::default();
        Arc::new(Self { connector, inner: Mutex::default(), of_organisations, records })
    }

    /// Sets the receiver of news.
    pub fn observe(&self, observer: Weak<dyn AccountObserver>) {
        let _ = self.records.observer.set(observer);
    }

    /// Subscribes to changes of grants at any gateway: connected, disconnected, with further
    /// scopes, or in need of them or of another authorization. A renewed token is none, but a
    /// failure to renew it is, at the gateway where it happens.
    pub fn changes(&self) -> ConnectionChanges {
        ConnectionChanges(self.records.changes.subscribe())
    }

    /// Prepares the accounts of a configuration. Accounts at servers with unchanged settings are
    /// kept.
    pub fn prepare(&self, config: &Config) -> PreparedAccounts {
        let known = self.inner.lock();
        let has_own_keys = !config.link_secrets.is_empty();
        let link_keys = match &known.link_keys {
            _ if has_own_keys => Some(LinkKeys::derive(&config.link_secrets)),
            Some(keys) if !known.has_own_keys => Some(keys.clone()),
            _ => LinkKeys::random().ok(),
        };
        let mut inner = Inner { link_keys, has_own_keys, servers: Servers::new() };
        let mut kept = BTreeSet::new();
        for (slug, wanted) in &config.servers {
            let accounts = match known.servers.get(slug) {
                Some(accounts) if accounts.server.config == *wanted => {
                    kept.insert(slug.clone());
                    accounts.clone()
                }
                _ => self.make((&"".into(), slug), wanted, &self.connector),
            };
            inner.servers.insert(slug.clone(), accounts);
        }
        PreparedAccounts { inner, public_url: config.public_url.clone(), kept }
    }

    fn make(
        &self,
        place: (&Arc<str>, &str),
        wanted: &ServerConfig,
        connector: &Arc<Connector>,
    ) -> ServerAccounts {
        let connector = Arc::clone(connector);
        let records = &self.records;
        let server = Arc::new(AccountServer::new(place, wanted, connector, records));
        let own = Arc::new(Account::new(None, Arc::clone(&server), Arc::clone(records)));
        ServerAccounts { server, own, of_users: Arc::default() }
    }

    /// Puts prepared accounts into use.
    pub fn adopt(&self, prepared: PreparedAccounts) {
        *self.records.public_url.lock() = prepared.public_url;
        *self.inner.lock() = prepared.inner;
    }

    /// Replaces the servers of an organisation. Accounts at servers with unchanged settings are
    /// kept.
    pub fn set_organisation(
        &self,
        organisation: &Arc<str>,
        wanted: &BTreeMap<String, ServerConfig>,
        connector: &Arc<Connector>,
    ) {
        let mut all = self.of_organisations.lock();
        let mut known = all.remove(organisation).unwrap_or_default();
        let mut servers = Servers::new();
        for (slug, config) in wanted {
            let kept = known.remove(slug).filter(|known| known.server.config == *config);
            let accounts =
                kept.unwrap_or_else(|| self.make((organisation, slug), config, connector));
            servers.insert(slug.clone(), accounts);
        }
        if !servers.is_empty() {
            all.insert(Arc::clone(organisation), servers);
        }
    }

    /// Returns the accounts at a server of the configuration, or else of the organisation.
    fn server(&self, slug: &str, organisation: &str) -> Option<ServerAccounts> {
        if let Some(shared) = self.inner.lock().servers.get(slug) {
            return Some(shared.clone());
        }
        self.of_organisations.lock().get(organisation)?.get(slug).cloned()
    }

    /// Returns the settings of accounts at a server of the configuration.
    pub fn config(&self, slug: &str) -> Option<ServerConfig> {
        let inner = self.inner.lock();
        inner.servers.get(slug).map(|accounts| accounts.server.config.clone())
    }

    /// Returns the gateway's own account at a server of the configuration, or else of the
    /// organisation.
    pub fn own(&self, slug: &str, organisation: &str) -> Option<Arc<Account>> {
        self.server(slug, organisation).map(|accounts| accounts.own)
    }

    /// Returns the account of a holder in memory.
    pub fn find(&self, slug: &str, holder: &Holder) -> Option<Arc<Account>> {
        let of_users = self.server(slug, &holder.organisation)?.of_users;
        of_users.lock().get(holder).cloned()
    }

    /// Returns the account of a holder, with or without a grant. The first use reads the store.
    ///
    /// # Errors
    /// The server has no such accounts, or the store cannot be read.
    pub async fn load(&self, slug: &str, holder: &Holder) -> Result<Arc<Account>> {
        let account = match self.find(slug, holder) {
            Some(account) if account.is_loaded() => return Ok(account),
            _ => self.of_user(slug, holder)?,
        };
        account.load().await?;
        Ok(account)
    }

    /// Returns the account of a holder at a server with accounts of users.
    fn of_user(&self, slug: &str, holder: &Holder) -> Result<Arc<Account>> {
        let accounts = self.server(slug, &holder.organisation);
        let Some(accounts) = accounts.filter(|known| known.server.config.method.is_per_user())
        else {
            return Err(AccountError::Invalid("the server has no accounts of users".into()));
        };
        let mut of_users = accounts.of_users.lock();
        let is_exchanged = accounts.server.config.method.exchanges_tokens();
        let limit = if is_exchanged { MAX_EXCHANGED } else { MAX_ACCOUNTS };
        if of_users.len() >= limit && !of_users.contains_key(holder) {
            of_users.retain(|_, account| {
                if is_exchanged { Arc::strong_count(account) > 1 } else { account.is_connected() }
            });
        }
        if of_users.len() >= limit && !of_users.contains_key(holder) {
            return Err(AccountError::Internal("too many accounts are connected"));
        }
        let account = of_users.entry(holder.clone()).or_insert_with(|| {
            let server = Arc::clone(&accounts.server);
            Arc::new(Account::new(Some(holder.clone()), server, Arc::clone(&self.records)))
        });
        Ok(Arc::clone(account))
    }

    /// Returns a link with which the holder connects an account at a server.
    ///
    /// # Errors
    /// The public address is not configured.
    pub fn link(&self, slug: &str, holder: &Holder) -> Result<Link> {
        let public_url = self.records.public_url()?;
        let inner = self.inner.lock();
        let link = inner.link_keys.as_ref().and_then(|keys| keys.link(slug, holder, &public_url));
        link.ok_or(AccountError::Internal("random numbers are unavailable on this machine"))
    }

    /// Returns the page on which members of an organisation connect their accounts at a server;
    /// `None` if they do not.
    pub fn page(&self, slug: &str, organisation: &str) -> Option<Url> {
        let method = self.server(slug, organisation)?.server.config.method;
        let public_url = self.records.public_url().ok().filter(|_| method.is_connectable())?;
        Some(below(&public_url, &format!("connect/{slug}")))
    }

    /// Returns whether a link was made for this holder; `None` if it is unknown or has expired.
    pub fn is_link_of(&self, slug: &str, id: &str, holder: &Holder) -> Option<bool> {
        self.inner.lock().link_keys.as_ref()?.is_of(id, slug, holder)
    }

    /// Describes the authorization that a holder is about to start.
    ///
    /// # Errors
    /// The server has no such accounts, or its authorization server cannot be used.
    pub async fn describe(&self, slug: &str, holder: &Holder) -> Result<Consent> {
        let account = self.load(slug, holder).await?;
        account.reload().await?;
        connecting::describe(&account).await
    }

    /// Starts an authorization.
    ///
    /// # Errors
    /// As for [`Self::describe`].
    pub async fn start(&self, slug: &str, holder: &Holder) -> Result<Started> {
        let public_url = self.records.public_url()?;
        let account = self.load(slug, holder).await?;
        account.reload().await?;
        connecting::start(&self.records, &account, holder, &public_url).await
    }

    /// Stores the key that a holder has entered for a server with keys of users. `resource` is the
    /// address that the holder has seen.
    ///
    /// # Errors
    /// The address has changed, the key cannot be sent in a header, or the store cannot be written.
    pub async fn enter_key(
        &self,
        slug: &str,
        holder: &Holder,
        key: &str,
        resource: &str,
    ) -> Result<()> {
        let account = self.load(slug, holder).await?;
        let config = &account.server.config;
        if config.method != Method::UserKey || key.is_empty() {
            return Err(AccountError::Invalid("the server takes no such key".into()));
        }
        if canonical(&config.url) != resource {
            let words = "the server's address has changed: open the page again, and check it";
            return Err(AccountError::Invalid(words.into()));
        }
        account.connect(Grant::of_key(key, config)?).await
    }

    /// Returns the name of the cookie for a response with this state.
    pub fn cookie_name(&self, state: &str) -> Option<String> {
        let public_url = self.records.public_url().ok()?;
        Some(connecting::cookie_name(&public_url, state))
    }

    /// Completes an authorization. Returns the server and the holder, and whether scopes were added
    /// to a grant; `None` for a response that no attempt of this browser awaits, after which no
    /// request was sent. No request is sent for a holder that is not valid any more either.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn finish(
        &self,
        query: CallbackQuery<'_>,
        cookie: Option<&str>,
        is_valid: impl FnOnce(&Holder) -> bool,
    ) -> Result<Option<(String, Holder, Result<bool>)>> {
        let Some(attempt) = connecting::take(&self.records, query.state, cookie).await? else {
            return Ok(None);
        };
        let slug = attempt.server.clone();
        let holder = attempt.holder();
        let done = match self.load(&slug, &holder).await {
            _ if !is_valid(&holder) => {
                Err(AccountError::Invalid("the caller's credential was revoked".into()))
            }
            Ok(account) => attempt.finish(&account, query).await,
            Err(error) => Err(error),
        };
        Ok(Some((slug, holder, done)))
    }

    /// Ends a holder's grant at a server: it is wiped, its calls end, and then it is revoked at its
    /// authorization server if possible. Returns `false` if there is none.
    ///
    /// # Errors
    /// The store cannot be written.
    pub async fn disconnect(&self, slug: &str, holder: &Holder) -> Result<bool> {
        match self.of_user(slug, holder) {
            Ok(account) => account.disconnect().await,
            Err(_) => self.disconnect_removed(slug, holder).await,
        }
    }

    /// Ends a holder's grant at a server that was removed or disabled.
    async fn disconnect_removed(&self, slug: &str, holder: &Holder) -> Result<bool> {
        let Some(Storage { store, vault }) = &self.records.storage else { return Ok(false) };
        let ended = new_record(&record_id(holder, slug), holder, slug);
        let found = store.find_grant(&ended.id).await?;
        let Some(found) = found.filter(|found| found.state != ended.state) else {
            return Ok(false);
        };
        let tokens = found.open(vault).ok().flatten();
        let Some(url) = tokens.as_ref().and_then(Grant::resource_of) else {
            store.write_grant(&ended, None, None).await?;
            return Ok(true);
        };
        let addresses = self.connector.config().organisations;
        let config = ServerConfig::of_members(Method::User, url, addresses);
        let connector = Arc::new(self.connector.for_organisation());
        let server = self.make((&holder.organisation, slug), &config, &connector).server;
        let account = Account::new(Some(holder.clone()), server, Arc::clone(&self.records));
        Arc::new(account).disconnect().await
    }

    /// Lists the grants that a filter selects, without tokens.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn list(&self, filter: GrantFilter<'_>) -> Result<Vec<Connection>> {
        if let Some(storage) = &self.records.storage {
            let records = storage.store.list_grants(filter).await?;
            return Ok(records.iter().map(Connection::new).collect());
        }
        let all = self.all();
        let records = all.iter().filter_map(|account| account.describe());
        let mut found: Vec<_> = records.map(|record| Connection::new(&record)).collect();
        found.retain(|connection| connection.is_in(filter));
        Ok(found)
    }

    /// Returns the grant of this id, without tokens, if it has not been disconnected.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn connection(&self, id: &str) -> Result<Option<Connection>> {
        let found = match &self.records.storage {
            Some(storage) => storage.store.find_grant(id).await?,
            None => {
                let all = self.all();
                let account = all.iter().find(|account| account.id == id);
                account.and_then(|account| account.describe())
            }
        };
        let found = found.filter(|record| record.state != DISCONNECTED);
        Ok(found.as_ref().map(Connection::new))
    }

    /// Returns the Client ID Metadata Document; `None` without a public address.
    pub fn client_document(&self) -> Option<Value> {
        self.records.public_url().ok().as_ref().map(document)
    }

    /// Returns the paths of the callback and of the client's document below the public address.
    pub fn paths() -> [&'static str; 2] {
        [CALLBACK_PATH, DOCUMENT_PATH]
    }
}
