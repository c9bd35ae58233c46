//! A server at which callers have their own accounts: a client for each holder of a grant, so that
//! connections, sessions, limits, failures and the circuit breaker of one never concern another.
//! The lists come from a separate client without any user's credential. There is no other
//! credential to fall back to.

mod lists;
mod refusal;
mod subscriptions;
mod watches;

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use ahash::AHashMap;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use lockgate_accounts::{
    Account, AccountState, Accounts, Holder, HolderKey, ServerConfig, SubjectToken,
};
use lockgate_admission::{ConcurrencyLimit, clock, spawn};
use lockgate_authn::{ANONYMOUS, DEFAULT_ORGANISATION};
use lockgate_upstream::{
    Answer, Authorization, BoxFuture, Call, Caller, CallerIdentity, CallerToken, CallerView,
    Catalog, Client, Config, Instance, OwnLists, Stats, Status, Subscription, Surroundings, Topic,
    Transport, Upstream, UpstreamError, UpstreamErrorKind, UpstreamState,
};
use parking_lot::Mutex;
use tokio::sync::broadcast;

use crate::shutdown::Retiring;
use watches::Watches;

/// Idle time after which a user's client is disconnected.
const IDLE_TIMEOUT: Duration = Duration::from_secs(300);
/// Interval at which a waiting call checks whether its caller has connected, at any gateway.
const ACCOUNT_POLL: Duration = Duration::from_millis(200);
/// Events of users' clients that may wait.
const MAX_EVENTS: usize = 64;

/// An account as the credential of a client.
pub(crate) struct AccountAuthorization {
    account: Arc<Account>,
    /// The user and the clients of the server; `None` for the gateway's own account.
    user: Option<(Holder, Weak<UserClients>)>,
}

impl AccountAuthorization {
    /// Creates the credential of a client without users.
    pub(crate) fn of_gateway(account: Arc<Account>) -> Arc<dyn Authorization> {
        Arc::new(Self { account, user: None })
    }
}

impl Authorization for AccountAuthorization {
    fn name(&self) -> &HeaderName {
        self.account.header_name()
    }

    fn header(&self) -> Option<HeaderValue> {
        self.account.header()
    }

    fn ready_header(&self) -> Option<HeaderValue> {
        self.account.ready_header()
    }

    fn prepare(&self) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async move { self.account.prepare().await.map_err(|error| error.to_string()) })
    }

    fn note_refusal(&self, status: StatusCode, headers: &HeaderMap) {
        let challenges = headers.get_all(http::header::WWW_AUTHENTICATE).iter();
        self.account.note_refusal(status, challenges.filter_map(|value| value.to_str().ok()));
    }

    fn renew(&self, rejected: Option<HeaderValue>) -> BoxFuture<'_, bool> {
        Box::pin(async move { self.account.renew(rejected.as_ref()).await.is_ok() })
    }

    fn explain(&self, failure: UpstreamError) -> BoxFuture<'_, UpstreamError> {
        Box::pin(async move {
            let Some((holder, clients)) = &self.user else { return failure };
            match clients.upgrade() {
                Some(clients) => clients.refuse_call(holder, &self.account).await,
                None => failure,
            }
        })
    }
}

/// The clients of one server.
pub(crate) struct UserClients {
    /// Reads the lists and carries no user's credential.
    listing: Arc<Client>,
    settings: ServerConfig,
    around: Surroundings,
    accounts: Arc<Accounts>,
    open: Mutex<OpenClients>,
    watches: Watches,
    /// The holder whose lists are served, with lists of users.
    source: Mutex<Option<Holder>>,
    this: Weak<Self>,
}

/// The versions of a user's and the shared lists, and their difference.
type Compared = ((u64, u64), Arc<OwnLists>);
type OpenClients = AHashMap<Holder, Arc<UserClient>>;

struct UserClient {
    client: Arc<Client>,
    account: Arc<Account>,
    used: Mutex<Instant>,
    /// The difference from the shared lists.
    lists: Mutex<Option<Compared>>,
}

impl UserClients {
    pub(crate) fn new(
        listing: Arc<Client>,
        settings: ServerConfig,
        around: &Surroundings,
        accounts: &Arc<Accounts>,
    ) -> Arc<Self> {
        // Lists of a user are stored for no other.
        let around = Surroundings { single_client: None, memory: None, ..around.clone() };
        let accounts = Arc::clone(accounts);
        Arc::new_cyclic(|this| Self {
            listing,
            settings,
            around,
            accounts,
            open: Mutex::default(),
            watches: Watches::default(),
            source: Mutex::default(),
            this: this.clone(),
        })
    }

    /// Applies changed settings of the server.
    pub(crate) fn reconfigure(&self) {
        let config = self.config();
        for user in self.open.lock().values() {
            user.client.reconfigure(config.clone());
        }
    }

    /// Ends the clients after their last calls.
    pub(crate) fn retire(&self, retiring: &Retiring) {
        for (_, user) in self.open.lock().drain() {
            retiring.retire(Arc::clone(&user.client));
        }
    }

    /// Ends the connections and calls of all holders at once: the server was deleted, or its method
    /// of authentication changed, and the grants ended with it.
    pub(crate) fn end_all(&self) {
        let holders: Vec<Holder> = self.open.lock().keys().cloned().collect();
        for holder in holders {
            self.end(&holder);
        }
    }

    /// Ends a holder's connections and calls at once: the grant is gone.
    pub(crate) fn end(&self, holder: &Holder) {
        self.close_client(holder);
        // Their next read returns a link.
        self.tell_updated(holder);
    }

    /// Closes the client of a holder. Returns `false` if there is none.
    fn close_client(&self, holder: &Holder) -> bool {
        let Some(user) = self.open.lock().remove(holder) else { return false };
        spawn(async move { user.client.close().await });
        self.replace_lists_of(holder);
        self.tell_lists();
        true
    }

    /// Takes note of a holder that has just connected an account, possibly another one: sessions
    /// of the former account end after its calls, and no later request uses them. Subscribes again
    /// in the background, and reads the lists if they are needed.
    pub(crate) fn connected(self: Arc<Self>, holder: &Holder) {
        let (replaced, watched) = self.take(holder);
        if let Some(user) = replaced {
            spawn(async move {
                user.client.finish_calls(IDLE_TIMEOUT).await;
                user.client.close().await;
            });
        }
        let needs_lists = self.is_listed_per_user() || self.lists_as_users() && self.lacks_source();
        if !needs_lists && watched.is_empty() {
            return;
        }
        let holder = holder.clone();
        spawn(async move {
            if let Ok(user) = self.find(&holder).await {
                user.client.revive();
                self.renew(&holder, &user.client, watched).await;
            }
        });
    }

    /// Returns the settings of users' clients: those of the server, without its headers.
    fn config(&self) -> Config {
        let mut config = Config::clone(&self.listing.config());
        if let Transport::Http { headers, .. } | Transport::Sse { headers, .. } =
            &mut config.transport
        {
            headers.clear();
        }
        config.rests_after = Some(IDLE_TIMEOUT);
        config
    }

    /// Returns the client of a holder, or how the holder connects an account.
    async fn find(&self, holder: &Holder) -> Result<Arc<UserClient>, UpstreamError> {
        match self.find_open(holder) {
            Some(user) => Ok(user),
            None => self.open_client(holder).await,
        }
    }

    fn find_open(&self, holder: &dyn HolderKey) -> Option<Arc<UserClient>> {
        let open = self.open.lock();
        let user = open.get(holder).filter(|user| user.account.is_connected())?;
        *user.used.lock() = clock::now();
        Some(Arc::clone(user))
    }

    /// Returns the open client of a caller, without making a holder.
    fn find_caller(&self, caller: CallerIdentity<'_>) -> Option<Arc<UserClient>> {
        let organisation = caller.organisation.unwrap_or(DEFAULT_ORGANISATION);
        let digest = self.token_of(caller).map(|token| token.digest);
        self.find_open(&(organisation, caller.issuer, caller.subject, digest))
    }

    async fn open_client(&self, holder: &Holder) -> Result<Arc<UserClient>, UpstreamError> {
        let account = match self.accounts.load(self.slug(), holder).await {
            Ok(account) => account,
            Err(error) => {
                let words = format!("the caller's account cannot be read: {error}");
                let failure = UpstreamErrorKind::Overloaded.error(words);
                return Err(failure.retry_after(Duration::from_secs(5)));
            }
        };
        // The configuration has changed, or its server has the name of an integration.
        if !account.has_settings(&self.settings) {
            let words = "the settings of the server's accounts are being changed";
            let failure = UpstreamErrorKind::Overloaded.error(words);
            return Err(failure.retry_after(Duration::from_secs(1)));
        }
        if !account.is_connectable() {
            if let Err(error) = account.prepare().await {
                return Err(self.refuse(holder, &account, &error));
            }
        } else if !account.is_connected() {
            // Without a client the holder has been told already, and reads again because of it.
            if self.close_client(holder) {
                self.tell_updated(holder);
            }
            return Err(self.prompt(holder, None));
        }
        self.client_of(holder, account)
    }

    fn client_of(
        &self,
        holder: &Holder,
        account: Arc<Account>,
    ) -> Result<Arc<UserClient>, UpstreamError> {
        let mut open = self.open.lock();
        if let Some(user) = open.get(holder)
            && Arc::ptr_eq(&user.account, &account)
        {
            return Ok(Arc::clone(user));
        }
        let config = self.config();
        if open.len() >= config.limits.client_connections {
            self.make_room(&mut open)?;
        }
        let (events, receiver) = broadcast::channel(MAX_EVENTS);
        spawn(Self::follow(self.this.clone(), holder.clone(), receiver));
        let user = Some((holder.clone(), self.this.clone()));
        let authorization = AccountAuthorization { account: Arc::clone(&account), user };
        let authorization = Some(Arc::new(authorization) as _);
        let around = Surroundings { authorization, events, ..self.around.clone() };
        let client = Client::new(config, around)
            .map_err(|error| UpstreamErrorKind::Unavailable.error(error.words))?;
        client.start();
        let used = clock::now().into();
        let user = Arc::new(UserClient { client, account, used, lists: Mutex::default() });
        open.insert(holder.clone(), Arc::clone(&user));
        Ok(user)
    }

    /// Returns the caller's token, where it is exchanged.
    fn token_of<'a>(&self, caller: CallerIdentity<'a>) -> Option<CallerToken<'a>> {
        caller.access_token.filter(|_| self.settings.method.exchanges_tokens())
    }

    /// Returns the holder of the caller's accounts, with the token to exchange if there is one.
    fn holder_of(&self, caller: CallerIdentity<'_>) -> Result<Holder, UpstreamError> {
        let CallerIdentity { organisation, issuer, subject, .. } = caller;
        if issuer == ANONYMOUS {
            let words = "callers without credentials share an identity, so they have no account";
            return Err(UpstreamErrorKind::NeedsAuth.error(words));
        }
        let mut holder = Holder::new(organisation.unwrap_or(DEFAULT_ORGANISATION), issuer, subject);
        holder.token = self.token_of(caller).map(|token| {
            let CallerToken { text, digest, expires_at } = token;
            Arc::new(SubjectToken::new(text, *digest, expires_at))
        });
        Ok(holder)
    }
}

impl Upstream for UserClients {
    fn slug(&self) -> &str {
        self.listing.slug()
    }

    fn organisation(&self) -> Option<&Arc<str>> {
        self.listing.organisation()
    }

    fn instance(&self) -> Instance {
        self.listing.instance()
    }

    /// Returns the status of the connection for lists.
    fn status(&self) -> Arc<Status> {
        let status = self.listing.status();
        if !self.lists_as_users() {
            return status;
        }
        Arc::new(Status { state: UpstreamState::Resting, trouble: None, ..Status::clone(&status) })
    }

    /// Returns the server's lists. Until the first user has connected, a tool that connects the
    /// caller's account stands for the server.
    fn catalog(&self) -> Arc<Catalog> {
        if !self.awaits_user() { self.listing.catalog() } else { Arc::new(self.connect_catalog()) }
    }

    fn stats(&self) -> Option<Stats> {
        self.listing.stats()
    }

    fn calls(&self) -> &Arc<ConcurrencyLimit> {
        self.listing.calls()
    }

    fn validates_arguments(&self) -> bool {
        self.listing.validates_arguments()
    }

    fn streams_answers(&self) -> bool {
        self.listing.streams_answers()
    }

    fn client_of(&self, caller: CallerIdentity<'_>) -> Option<Arc<Client>> {
        if !self.listing.config().enabled {
            return None;
        }
        let user = self.find_caller(caller)?;
        if self.awaits_lists(&user) { None } else { Some(Arc::clone(&user.client)) }
    }

    fn call<'a>(&'a self, call: Call<'a>) -> BoxFuture<'a, Result<Answer, UpstreamError>> {
        Box::pin(async move {
            if !self.listing.config().enabled {
                return self.listing.call(call).await;
            }
            let identity = match (call.caller_view, call.identity) {
                (Some(view), _) => view.identity(),
                (None, Some(identity)) => *identity,
                (None, None) => {
                    let words = "the request has no caller, so it has no account at the server";
                    return Err(UpstreamErrorKind::NeedsAuth.error(words));
                }
            };
            let user = self.find(&self.holder_of(identity)?).await?;
            if self.awaits_lists(&user) {
                user.client.revive();
                let words = "the account is connected, and the tools of the server are being read";
                let failure = UpstreamErrorKind::Overloaded.error(words);
                return Err(failure.retry_after(Duration::from_secs(2)));
            }
            user.client.call(call).await
        })
    }

    fn wait_for_account<'a>(&'a self, caller: &'a dyn CallerView) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let Ok(holder) = self.holder_of(caller.identity()) else { return };
            let Ok(account) = self.accounts.load(self.slug(), &holder).await else { return };
            while matches!(account.state(), AccountState::NeedsConnect | AccountState::NeedsScope) {
                tokio::time::sleep(ACCOUNT_POLL).await;
            }
        })
    }

    fn subscribe<'a>(
        &'a self,
        topic: &'a Topic,
        caller: &'a Caller,
        identity: CallerIdentity<'a>,
    ) -> BoxFuture<'a, Result<Subscription, UpstreamError>> {
        Box::pin(self.watch(topic, caller, identity))
    }

    fn unsubscribe<'a>(&'a self, topic: &'a Topic, given: Subscription) -> BoxFuture<'a, ()> {
        Box::pin(self.unsubscribe_as(topic, given))
    }

    fn has_private_lists(&self) -> bool {
        self.is_listed_per_user()
    }

    fn private_lists(&self, caller: CallerIdentity<'_>) -> Option<Arc<OwnLists>> {
        self.lists_of(caller)
    }

    fn wait_for_private_lists<'a>(&'a self, caller: CallerIdentity<'a>) -> BoxFuture<'a, ()> {
        Box::pin(self.wait_for_lists_of(caller))
    }

    fn touch(&self) {
        self.listing.touch();
    }

    fn revive(&self) {
        self.listing.revive();
    }

    fn tell_roots_changed(&self, session: u64) {
        for user in self.open.lock().values() {
            user.client.tell_roots_changed(session);
        }
    }

    fn forget_session(&self, session: u64) {
        for user in self.open.lock().values() {
            user.client.forget_session(session);
        }
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let open = std::mem::take(&mut *self.open.lock());
            for user in open.into_values() {
                user.client.close().await;
            }
        })
    }
}
