//! All accounts at all servers. Grants are read from the store on first use; after that, the path
//! of a request reads them in memory, and changes by other gateways are followed.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Weak};
use std::time::Duration;

use lockgate_egress::Connector;
use lockgate_store::GrantFilter;
use parking_lot::Mutex;
use serde_json::Value;
use url::Url;

use crate::account::Account;
use crate::config::{Config, Listing, Method, ServerConfig};
use crate::connecting::{self, CallbackQuery, Consent, Started};
use crate::connection::Connection;
use crate::error::AccountError;
use crate::grant::Grant;
use crate::holder::{DISCONNECTED, Holder, new_record, record_holder, record_id};
use crate::links::{Link, LinkKeys};
use crate::records::{AccountObserver, Records, Storage};
use crate::registration::{CALLBACK_PATH, DOCUMENT_PATH, below, document};
use crate::server::AccountServer;

/// Maximum number of accounts at a server.
const MAX_ACCOUNTS: usize = 100_000;
/// Maximum number of callers' tokens at a server that exchanges them.
const MAX_EXCHANGED: usize = 10_000;
/// Interval at which the store is polled for changes by other gateways, besides notifications.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Interval at which unused accounts are dropped from memory, and expired records from the store.
const PURGE_INTERVAL: Duration = Duration::from_secs(60);
/// Time after which an account without connections is dropped from memory.
const UNUSED_AGE: Duration = Duration::from_secs(3600);

/// Accounts at the servers of the configuration.
pub struct Accounts {
    connector: Arc<Connector>,
    egress: lockgate_egress::Config,
    inner: Mutex<Inner>,
    records: Arc<Records>,
}

#[derive(Default)]
struct Inner {
    public_url: Option<Url>,
    link_keys: Option<LinkKeys>,
    /// Whether `link_keys` are those of the configuration.
    has_own_keys: bool,
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
    /// Creates accounts with grants in a store; `None` keeps them in memory.
    #[must_use]
    pub fn new(
        connector: Arc<Connector>,
        egress: lockgate_egress::Config,
        storage: Option<Storage>,
    ) -> Arc<Self> {
        let records = Records::new(storage);
        Arc::new(Self { connector, egress, inner: Mutex::default(), records })
    }

    /// Sets the receiver of news.
    pub fn observe(&self, observer: Weak<dyn AccountObserver>) {
        let _ = self.records.observer.set(observer);
    }

    /// Prepares the accounts of a configuration. Accounts at servers with unchanged settings are
    /// kept.
    #[must_use]
    pub fn prepare(&self, config: &Config) -> PreparedAccounts {
        let known = self.inner.lock();
        let has_own_keys = !config.link_secrets.is_empty();
        let link_keys = match &known.link_keys {
            _ if has_own_keys => Some(LinkKeys::derive(&config.link_secrets)),
            Some(keys) if !known.has_own_keys => Some(keys.clone()),
            _ => LinkKeys::random().ok(),
        };
        let public_url = config.public_url.clone();
        let mut inner = Inner { public_url, link_keys, has_own_keys, ..Inner::default() };
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
        let records = &self.records;
        let server = AccountServer::new(slug, wanted, public_url, connector, &self.egress, records);
        let server = Arc::new(server);
        let own = Arc::new(Account::new(None, Arc::clone(&server), Arc::clone(records)));
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

    /// Returns whether calls exchange their caller's own access token.
    #[must_use]
    pub fn exchanges_tokens(&self, slug: &str) -> bool {
        let inner = self.inner.lock();
        let known = inner.servers.get(slug);
        known.is_some_and(|known| known.server.config.method.exchanges_tokens())
    }

    /// Returns how long a call waits for an account of its caller.
    #[must_use]
    pub fn waits_of(&self, slug: &str) -> Duration {
        let inner = self.inner.lock();
        inner.servers.get(slug).map(|known| known.server.config.waits).unwrap_or_default()
    }

    /// Returns the account of a holder in memory.
    #[must_use]
    pub fn find(&self, slug: &str, holder: &Holder) -> Option<Arc<Account>> {
        let of_users = Arc::clone(&self.inner.lock().servers.get(slug)?.of_users);
        of_users.lock().get(holder).cloned()
    }

    /// Returns the account of a holder, with or without a grant. The first use reads the store.
    ///
    /// # Errors
    /// The server has no such accounts, or the store cannot be read.
    pub async fn load(&self, slug: &str, holder: &Holder) -> Result<Arc<Account>, AccountError> {
        let account = match self.find(slug, holder) {
            Some(account) if account.is_loaded() => return Ok(account),
            _ => self.of_user(slug, holder)?,
        };
        account.load().await?;
        Ok(account)
    }

    /// Returns the account of a holder at a server with accounts of users.
    fn of_user(&self, slug: &str, holder: &Holder) -> Result<Arc<Account>, AccountError> {
        let inner = self.inner.lock();
        let accounts = inner.servers.get(slug);
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
    pub fn link(&self, slug: &str, holder: &Holder) -> Result<Link, AccountError> {
        let public_url = self.public_url()?;
        let inner = self.inner.lock();
        let link = inner.link_keys.as_ref().and_then(|keys| keys.link(slug, holder, &public_url));
        link.ok_or(AccountError::Internal("random numbers are unavailable on this machine"))
    }

    /// Returns the page on which callers connect their accounts at a server.
    #[must_use]
    pub fn page(&self, slug: &str) -> Option<Url> {
        let inner = self.inner.lock();
        let is_known = inner.servers.get(slug)?.server.config.method.is_connectable();
        let public_url = inner.public_url.as_ref().filter(|_| is_known)?;
        Some(below(public_url, &format!("connect/{slug}")))
    }

    /// Returns whether a link was made for this holder; `None` if it is unknown or has expired.
    #[must_use]
    pub fn is_link_of(&self, slug: &str, id: &str, holder: &Holder) -> Option<bool> {
        self.inner.lock().link_keys.as_ref()?.is_of(id, slug, holder)
    }

    /// Describes the authorization that a holder is about to start.
    ///
    /// # Errors
    /// The server has no such accounts, or its authorization server cannot be used.
    pub async fn describe(&self, slug: &str, holder: &Holder) -> Result<Consent, AccountError> {
        let account = self.load(slug, holder).await?;
        account.reload().await?;
        connecting::describe(&account).await
    }

    /// Starts an authorization.
    ///
    /// # Errors
    /// As for [`Self::describe`].
    pub async fn start(&self, slug: &str, holder: &Holder) -> Result<Started, AccountError> {
        let public_url = self.public_url()?;
        let account = self.load(slug, holder).await?;
        account.reload().await?;
        connecting::start(&self.records, &account, holder, &public_url).await
    }

    /// Stores the key that a holder has entered for a server with keys of users.
    ///
    /// # Errors
    /// The key cannot be sent in a header, or the store cannot be written.
    pub async fn enter_key(
        &self,
        slug: &str,
        holder: &Holder,
        key: &str,
    ) -> Result<(), AccountError> {
        let account = self.load(slug, holder).await?;
        let config = &account.server.config;
        if config.method != Method::UserKey || key.is_empty() {
            return Err(AccountError::Invalid("the server takes no such key".into()));
        }
        account.write(Some(Grant::of_key(key, config)?), None, None).await?;
        if let Some(observer) = self.records.observer() {
            observer.connected(slug, holder);
        }
        Ok(())
    }

    /// Returns the name of the cookie for a response with this state.
    #[must_use]
    pub fn cookie_name(&self, state: &str) -> Option<String> {
        let public_url = self.public_url().ok()?;
        Some(connecting::cookie_name(&public_url, state))
    }

    /// Completes an authorization. Returns the server and the holder, and whether scopes were added
    /// to a grant; `None` for a response that no attempt of this browser awaits, after which no
    /// request was sent.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn finish(
        &self,
        query: CallbackQuery<'_>,
        cookie: Option<&str>,
    ) -> Result<Option<(String, Holder, Result<bool, AccountError>)>, AccountError> {
        let Some(attempt) = connecting::take(&self.records, query.state, cookie).await? else {
            return Ok(None);
        };
        let slug = attempt.server.clone();
        let holder = attempt.holder();
        let done = match self.load(&slug, &holder).await {
            Ok(account) => attempt.finish(&account, query).await,
            Err(error) => Err(error),
        };
        if let (Ok(_), Some(observer)) = (&done, self.records.observer()) {
            observer.connected(&slug, &holder);
        }
        Ok(Some((slug, holder, done)))
    }

    /// Ends a holder's grant at a server: it is wiped, its calls end, and then it is revoked at its
    /// authorization server if possible. Returns `false` if there is none.
    ///
    /// # Errors
    /// The store cannot be written.
    pub async fn disconnect(&self, slug: &str, holder: &Holder) -> Result<bool, AccountError> {
        if let Ok(account) = self.of_user(slug, holder) {
            return account.disconnect().await;
        }
        // The server has been removed from the configuration.
        let Some(storage) = &self.records.storage else { return Ok(false) };
        let record = new_record(&record_id(holder, slug), holder, slug);
        let found = storage.store.find_grant(&record.id).await?;
        if found.is_none_or(|found| found.state == record.state) {
            return Ok(false);
        }
        storage.store.write_grant(&record, None).await?;
        Ok(true)
    }

    /// Lists the grants that a filter selects, without tokens.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn list(&self, filter: GrantFilter<'_>) -> Result<Vec<Connection>, AccountError> {
        if let Some(storage) = &self.records.storage {
            let records = storage.store.list_grants(filter).await?;
            return Ok(records.iter().map(Connection::new).collect());
        }
        let mut found = Vec::new();
        for account in self.all() {
            found.extend(account.describe().map(|record| Connection::new(&record)));
        }
        found.retain(|connection| connection.is_in(filter));
        Ok(found)
    }

    /// Returns the grant of this id, without tokens, if it has not been disconnected.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn connection(&self, id: &str) -> Result<Option<Connection>, AccountError> {
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

    /// Returns the servers at which callers have their own accounts.
    #[must_use]
    pub fn servers(&self) -> Vec<String> {
        let inner = self.inner.lock();
        let servers = inner.servers.iter();
        let of_users = servers.filter(|(_, known)| known.server.config.method.is_connectable());
        of_users.map(|(slug, _)| slug.clone()).collect()
    }

    /// Follows changes of grants by other gateways, until the future is dropped.
    pub async fn follow(&self) {
        let Some(storage) = &self.records.storage else { return };
        let mut follower = storage.store.follow();
        let mut known = None;
        let mut purged = tokio::time::Instant::now();
        loop {
            follower.wait(POLL_INTERVAL).await;
            if !self.has_users() {
                continue;
            }
            if let Err(error) = self.read_changes(storage, &mut known).await {
                tracing::debug!("changes of accounts are read later: {error}");
            }
            if purged.elapsed() >= PURGE_INTERVAL {
                purged = tokio::time::Instant::now();
                self.forget_unused();
                if let Err(error) = storage.store.purge_accounts().await {
                    tracing::debug!(%error, "expired records of accounts are not deleted");
                }
            }
        }
    }

    /// Returns whether any server has accounts of users.
    fn has_users(&self) -> bool {
        let inner = self.inner.lock();
        inner.servers.values().any(|accounts| accounts.server.config.method.is_connectable())
    }

    /// Adopts the changes since the revision `known`. Without it, and after the store was replaced,
    /// all accounts in memory are read again.
    async fn read_changes(
        &self,
        storage: &Storage,
        known: &mut Option<i64>,
    ) -> Result<(), AccountError> {
        let newest = storage.store.grant_revision().await?;
        let Some(since) = known.filter(|known| *known <= newest) else {
            for account in self.all() {
                if known.is_some() {
                    account.forget_revision();
                }
                account.reload().await?;
            }
            *known = Some(newest);
            return Ok(());
        };
        let mut since = since;
        while since < newest {
            let changed = storage.store.changed_grants(since).await?;
            let Some(last) = changed.last() else { break };
            since = last.revision;
            for record in &changed {
                if let Some(account) = self.find(&record.server, &record_holder(record)) {
                    account.adopt(record);
                }
            }
            *known = Some(since);
        }
        *known = Some(newest);
        Ok(())
    }

    /// Returns the accounts in memory that users have connected on a page.
    fn all(&self) -> Vec<Arc<Account>> {
        let mut all = Vec::new();
        for accounts in self.inner.lock().servers.values() {
            if accounts.server.config.method.is_connectable() {
                all.extend(accounts.of_users.lock().values().cloned());
            }
        }
        all
    }

    /// Drops accounts that have no connection from memory. The store has their grants.
    fn forget_unused(&self) {
        for accounts in self.inner.lock().servers.values() {
            accounts.of_users.lock().retain(|_, account| {
                Arc::strong_count(account) > 1 || account.since.elapsed() < UNUSED_AGE
            });
        }
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
