//! A server at which callers have their own accounts: a client for each holder of a grant, so that
//! connections, sessions, limits, failures and the circuit breaker of one never concern another.
//! The lists come from a separate client without any user's credential. There is no other
//! credential to fall back to.

mod lists;
mod refusal;
mod subscriptions;
mod watches;

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use lockgate_accounts::{
    Account, AccountState, Accounts, Holder, HolderKey, ServerConfig, SubjectToken,
};
use lockgate_admission::{ConcurrencyLimit, clock, spawn};
use lockgate_authn::{ANONYMOUS, DEFAULT_ORGANISATION};
use lockgate_upstream::{
    Answer, Authorization, BoxFuture, Call, Caller, CallerIdentity, CallerView, Catalog, Client,
    Config, Instance, Stats, Status, Subscription, Surroundings, Transport, Upstream,
    UpstreamError, UpstreamErrorKind, UpstreamState,
};
use parking_lot::Mutex;
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

use crate::retiring::Retiring;
use watches::Watches;

/// Idle time after which a user's client is disconnected.
const IDLE_TIMEOUT: Duration = Duration::from_secs(300);
/// Interval at which a waiting call checks whether its caller has connected, at any gateway.
const ACCOUNT_POLL: Duration = Duration::from_millis(200);
/// Events of users' clients that may wait.
const MAX_EVENTS: usize = 64;

/// An account as the credential of a client.
pub(crate) struct AccountAuthorization(pub(crate) Arc<Account>);

impl Authorization for AccountAuthorization {
    fn name(&self) -> HeaderName {
        self.0.header_name()
    }

    fn header(&self) -> Option<HeaderValue> {
        self.0.header()
    }

    fn is_ready(&self) -> bool {
        self.0.is_ready()
    }

    fn prepare(&self) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async move { self.0.prepare().await.map_err(|error| error.to_string()) })
    }

    fn note_refusal(&self, status: StatusCode, headers: &HeaderMap) {
        let challenges = headers.get_all(http::header::WWW_AUTHENTICATE).iter();
        self.0.note_refusal(status, challenges.filter_map(|value| value.to_str().ok()));
    }

    fn renew(&self, rejected: Option<HeaderValue>) -> BoxFuture<'_, bool> {
        Box::pin(async move { self.0.renew(rejected.as_ref()).await.is_ok() })
    }
}

/// The clients of one server.
pub(crate) struct UserClients {
    /// Reads the lists and carries no user's credential.
    listing: Arc<Client>,
    settings: ServerConfig,
    around: Surroundings,
    accounts: Arc<Accounts>,
    open: Arc<Mutex<HashMap<Holder, Arc<UserClient>>>>,
    watches: Watches,
    /// The holder whose lists are served, with lists of users.
    source: Mutex<Option<Holder>>,
    this: Weak<Self>,
}

struct UserClient {
    holder: Holder,
    client: Arc<Client>,
    account: Arc<Account>,
    used: Mutex<Instant>,
    /// Cancelled when the grant has ended.
    ended: CancellationToken,
}

impl UserClients {
    pub(crate) fn new(
        listing: Arc<Client>,
        settings: ServerConfig,
        around: &Surroundings,
        accounts: &Arc<Accounts>,
    ) -> Arc<Self> {
        let around = Surroundings { single_client: None, ..around.clone() };
        let accounts = Arc::clone(accounts);
        Arc::new_cyclic(|this| Self {
            listing,
            settings,
            around,
            accounts,
            open: Arc::default(),
            watches: Watches::default(),
            source: Mutex::default(),
            this: this.clone(),
        })
    }

    pub(crate) fn listing(&self) -> &Arc<Client> {
        &self.listing
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
        let ended = self.open.lock().remove(holder);
        if let Some(user) = ended {
            user.ended.cancel();
            spawn(async move { user.client.close().await });
            self.replace_lists_of(holder);
        }
        // Their next read returns a link.
        self.tell_updated(holder);
    }

    /// Takes note of a holder that has just connected an account, possibly another one: sessions
    /// of the former account end after its calls. Reads the lists if they are needed.
    pub(crate) async fn connected(&self, holder: &Holder) {
        if let Some(user) = self.open.lock().remove(holder) {
            spawn(async move {
                user.client.finish_calls(IDLE_TIMEOUT).await;
                user.client.close().await;
            });
        }
        let needs_lists = self.lists_as_users() && self.source.lock().is_none();
        let watched = self.watches.of(holder);
        if (needs_lists || !watched.is_empty())
            && let Ok(user) = self.find(holder).await
        {
            user.client.revive();
            self.renew(holder, &user.client, watched).await;
        }
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

    /// Returns the client of a caller. A new holder is made for callers without a client, and where
    /// tokens are exchanged.
    async fn find_caller(
        &self,
        caller: CallerIdentity<'_>,
    ) -> Result<Arc<UserClient>, UpstreamError> {
        let organisation = caller.organisation.unwrap_or(DEFAULT_ORGANISATION);
        let key = (organisation, caller.issuer, caller.subject);
        if !self.settings.method.exchanges_tokens()
            && let Some(user) = self.find_open(&key)
        {
            return Ok(user);
        }
        // Boxed because it is rare, to keep the future of a call small.
        Box::pin(async move { self.find(&self.holder_of(caller)?).await }).await
    }

    async fn open_client(&self, holder: &Holder) -> Result<Arc<UserClient>, UpstreamError> {
        let account = match self.accounts.load(self.slug(), holder).await {
            Ok(account) => account,
            Err(error) => {
                let words = format!("the caller's account cannot be read: {error}");
                let failure = UpstreamError::new(UpstreamErrorKind::Overloaded, words);
                return Err(failure.retry_after(Duration::from_secs(5)));
            }
        };
        // The configuration has changed, or its server has the name of an integration.
        if !account.has_settings(&self.settings) {
            let words = "the settings of the server's accounts are being changed";
            let failure = UpstreamError::new(UpstreamErrorKind::Overloaded, words);
            return Err(failure.retry_after(Duration::from_secs(1)));
        }
        if !account.is_connectable() {
            if let Err(error) = account.prepare().await {
                return Err(self.refuse(holder, &account, &error));
            }
        } else if !account.is_connected() {
            self.end(holder);
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
        let authorization: Arc<dyn Authorization> =
            Arc::new(AccountAuthorization(Arc::clone(&account)));
        let authorization = Some(authorization);
        let around = Surroundings { authorization, events, ..self.around.clone() };
        let client = Client::new(config, around)
            .map_err(|error| UpstreamError::new(UpstreamErrorKind::Unavailable, error.words))?;
        client.start();
        let ended = CancellationToken::new();
        let holder = holder.clone();
        let used = clock::now().into();
        let user = Arc::new(UserClient { holder: holder.clone(), client, account, used, ended });
        open.insert(holder, Arc::clone(&user));
        Ok(user)
    }

    /// Returns the holder, with a token only where it is exchanged.
    fn holder_of(&self, caller: CallerIdentity<'_>) -> Result<Holder, UpstreamError> {
        let access_token = caller.access_token.filter(|_| self.settings.method.exchanges_tokens());
        holder_of(CallerIdentity { access_token, ..caller })
    }

    async fn call_as(&self, user: &UserClient, call: Call<'_>) -> Result<Answer, UpstreamError> {
        let UserClient { holder, client, account, ended, .. } = user;
        if self.awaits_first_user() {
            client.revive();
            let words = "the account is connected, and the tools of the server are being read";
            let failure = UpstreamError::new(UpstreamErrorKind::Overloaded, words);
            return Err(failure.retry_after(Duration::from_secs(2)));
        }
        let answered = tokio::select! {
            biased;
            answered = client.call(call) => answered,
            () = ended.cancelled() => {
                // No prompt, after which the call would be made again.
                let words = "the account was disconnected during the call";
                let failure = UpstreamError::new(UpstreamErrorKind::Lost, words);
                return Err(UpstreamError { sent: true, ..failure });
            }
        };
        match answered {
            Err(failure) if failure.kind == UpstreamErrorKind::NeedsAuth => {
                // Boxed because it is rare: a large future would be copied for every call.
                Err(Box::pin(self.refuse_call(holder, account)).await)
            }
            answered => answered,
        }
    }
}

/// Returns the holder of the caller's accounts, with the token to exchange if there is one.
fn holder_of(caller: CallerIdentity<'_>) -> Result<Holder, UpstreamError> {
    let CallerIdentity { organisation, issuer, subject, access_token } = caller;
    if issuer == ANONYMOUS {
        let words = "callers without credentials share an identity, so they have no account";
        return Err(UpstreamError::new(UpstreamErrorKind::NeedsAuth, words));
    }
    let mut holder = Holder::new(organisation.unwrap_or(DEFAULT_ORGANISATION), issuer, subject);
    let token = access_token.map(|(text, expires_at)| SubjectToken::new(text, expires_at));
    holder.token = token.map(Arc::new);
    Ok(holder)
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
        if !self.awaits_first_user() {
            return self.listing.catalog();
        }
        Arc::new(self.connect_catalog())
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
                    return Err(UpstreamError::new(UpstreamErrorKind::NeedsAuth, words));
                }
            };
            let user = self.find_caller(identity).await?;
            self.call_as(&user, call).await
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
        uri: &'a str,
        caller: &'a Caller,
        identity: CallerIdentity<'a>,
    ) -> BoxFuture<'a, Result<Subscription, UpstreamError>> {
        Box::pin(async move {
            let holder = self.holder_of(identity)?;
            self.subscribe_as(&holder, uri, caller, identity).await
        })
    }

    fn unsubscribe<'a>(&'a self, uri: &'a str, given: Subscription) -> BoxFuture<'a, ()> {
        Box::pin(self.unsubscribe_as(uri, given))
    }

    fn watch_task<'a>(
        &'a self,
        id: &'a str,
        identity: CallerIdentity<'a>,
    ) -> BoxFuture<'a, Result<(), UpstreamError>> {
        Box::pin(self.watch_task_as(id, identity))
    }

    fn unwatch_task<'a>(&'a self, id: &'a str, identity: CallerIdentity<'a>) -> BoxFuture<'a, ()> {
        Box::pin(self.unwatch_task_as(id, identity))
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
