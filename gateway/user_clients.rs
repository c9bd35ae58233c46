//! A server at which callers have their own accounts: a client for each holder of a grant, so that
//! connections, sessions, limits, failures and the circuit breaker of one never concern another.
//! The lists come from a separate client without any user's credential. There is no other
//! credential to fall back to.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use lockgate_accounts::{
    Account, AccountError, AccountState, Accounts, Holder, Listing, ServerConfig, SubjectToken,
};
use lockgate_admission::ConcurrencyLimit;
use lockgate_authn::{ANONYMOUS, DEFAULT_ORGANISATION};
use lockgate_protocol::capabilities::Offers;
use lockgate_upstream::{
    Answer, Authorization, BoxFuture, Call, Caller, CallerView, Catalog, Client, Config,
    ConnectPrompt, Event, Instance, Item, Stats, Status, Subscription, Surroundings, Transport,
    Upstream, UpstreamError, UpstreamErrorKind, UpstreamState,
};
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use tokio_util::sync::CancellationToken;

use crate::retiring::Retiring;

/// Idle time after which a user's client is disconnected.
const IDLE_TIMEOUT: Duration = Duration::from_secs(300);
/// The tool that stands for a server without lists.
const CONNECT_TOOL: &str = "connect";
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
}

struct UserClient {
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
        let (events, receiver) = broadcast::channel(MAX_EVENTS);
        let around = Surroundings { events, single_client: None, ..around.clone() };
        let accounts = Arc::clone(accounts);
        Arc::new_cyclic(|this: &std::sync::Weak<Self>| {
            tokio::spawn(follow(this.clone(), receiver));
            Self { listing, settings, around, accounts, open: Arc::default() }
        })
    }

    pub(crate) fn listing(&self) -> &Arc<Client> {
        &self.listing
    }

    /// Returns whether the lists will be those of the first user that connects.
    pub(crate) fn awaits_first_user(&self) -> bool {
        self.settings.listing == Listing::FirstUser
            && self.listing.catalog().version == 0
            && self.listing.status().state == UpstreamState::NeedsAuth
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

    /// Ends a holder's connections and calls at once: the grant is gone.
    pub(crate) fn end(&self, holder: &Holder) {
        if let Some(user) = self.open.lock().remove(holder) {
            user.ended.cancel();
            tokio::spawn(async move { user.client.close().await });
        }
    }

    /// Takes note of a holder that has just connected an account, possibly another one: sessions
    /// of the former account end after its calls. Reads the lists if they are needed.
    pub(crate) async fn connected(&self, holder: &Holder) {
        if let Some(user) = self.open.lock().remove(holder) {
            tokio::spawn(async move {
                user.client.finish_calls(IDLE_TIMEOUT).await;
                user.client.close().await;
            });
        }
        if self.settings.listing == Listing::FirstUser
            && self.listing.catalog().version == 0
            && let Ok(user) = self.find(holder).await
        {
            user.client.revive();
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
        if let Some(user) = self.open.lock().get(holder)
            && user.account.is_connected()
        {
            *user.used.lock() = Instant::now();
            return Ok(Arc::clone(user));
        }
        // Boxed because it is rare, to keep the future of a call small.
        Box::pin(self.open_client(holder)).await
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
            make_room(&mut open)?;
        }
        let authorization: Arc<dyn Authorization> =
            Arc::new(AccountAuthorization(Arc::clone(&account)));
        let around = Surroundings { authorization: Some(authorization), ..self.around.clone() };
        let client = Client::new(config, around)
            .map_err(|error| UpstreamError::new(UpstreamErrorKind::Unavailable, error.words))?;
        client.start();
        let ended = CancellationToken::new();
        let user = Arc::new(UserClient { client, account, used: Instant::now().into(), ended });
        open.insert(holder.clone(), Arc::clone(&user));
        Ok(user)
    }

    /// Returns the error for a holder that has to connect an account, or to grant more scopes.
    fn prompt(&self, holder: &Holder, account: Option<&Account>) -> UpstreamError {
        let words = "the caller has to connect an account at the server";
        let mut error = UpstreamError::new(UpstreamErrorKind::NeedsAuth, words);
        let state = account.map_or(AccountState::NeedsConnect, Account::state);
        let scopes = account.map(Account::needed_scopes).unwrap_or_default();
        match self.accounts.link(self.slug(), holder) {
            Ok(link) => {
                let state = match state {
                    AccountState::NeedsScope => state,
                    _ => AccountState::NeedsConnect,
                };
                error.connect = Some(Box::new(ConnectPrompt {
                    url: link.url.into(),
                    state: state.as_str(),
                    scopes,
                    expires_at: link.expires_at,
                    waits: self.settings.waits,
                }));
            }
            Err(refused) => error.words = refused.to_string().into(),
        }
        error
    }

    /// Returns the error for a caller whose account has no usable token.
    fn refuse(&self, holder: &Holder, account: &Account, error: &AccountError) -> UpstreamError {
        // The gateway's client was refused, and the grant is kept: the operator's to correct.
        if error.is_transient() || *error == AccountError::InvalidClient {
            let words = format!("the token of the caller's account could not be renewed: {error}");
            let failure = UpstreamError::new(UpstreamErrorKind::Overloaded, words);
            return failure.retry_after(Duration::from_secs(5));
        }
        if !account.is_connectable() {
            let words = match error {
                AccountError::NoToken | AccountError::OtherIssuer(_) => error.to_string(),
                _ => format!(
                    "the caller's access token could not be exchanged for one of the server: \
                        {error}; this is decided by the administrator of the identity provider"
                ),
            };
            return UpstreamError::new(UpstreamErrorKind::Garbage, words);
        }
        if *error == AccountError::Forbidden {
            let words = "the server refuses access with the caller's account";
            return UpstreamError::new(UpstreamErrorKind::Garbage, words);
        }
        if *error == AccountError::NeedsScope && !account.may_upgrade() {
            let words = "the server still requires permissions or a sign-in after two \
                authorizations for the same, or ten in all, within an hour; ask its operator";
            return UpstreamError::new(UpstreamErrorKind::Garbage, words);
        }
        self.prompt(holder, Some(account))
    }

    async fn call_as(&self, holder: &Holder, call: Call<'_>) -> Result<Answer, UpstreamError> {
        let user = self.find(holder).await?;
        let UserClient { client, account, ended, .. } = &*user;
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
                account.share_needs().await;
                Err(self.refuse(holder, account, &account.trouble()))
            }
            answered => answered,
        }
    }
}

/// Returns the holder of the caller's accounts; `None` without an identity of its own.
fn holder_of(caller: &dyn CallerView) -> Option<Holder> {
    let organisation = caller.organisation().unwrap_or(DEFAULT_ORGANISATION);
    let holder = Holder::new(organisation, caller.issuer(), caller.subject());
    (caller.issuer() != ANONYMOUS).then_some(holder)
}

/// Ends the least recently used client without running calls.
fn make_room(open: &mut HashMap<Holder, Arc<UserClient>>) -> Result<(), UpstreamError> {
    let idle = open.iter().filter(|(_, user)| {
        user.client.stats().is_none_or(|stats| stats.running + stats.waiting == 0)
    });
    let oldest = idle.min_by_key(|(_, user)| *user.used.lock()).map(|(holder, _)| holder.clone());
    let Some(user) = oldest.and_then(|holder| open.remove(&holder)) else {
        let words = "all connections for users are in use (servers.NAME.client_connections)";
        let failure = UpstreamError::new(UpstreamErrorKind::ClientConnections, words);
        return Err(failure.retry_after(Duration::from_secs(5)));
    };
    tokio::spawn(async move { user.client.close().await });
    Ok(())
}

/// Forwards the events of users' clients that name a session. Others, such as log messages, concern
/// one user, and their receivers are not known. Takes over the first lists if they are needed.
async fn follow(clients: std::sync::Weak<UserClients>, mut events: broadcast::Receiver<Event>) {
    loop {
        let event = match events.recv().await {
            Ok(event) => event,
            Err(RecvError::Lagged(_)) => continue,
            Err(RecvError::Closed) => return,
        };
        let Some(clients) = clients.upgrade() else { return };
        match event {
            Event::Changed { .. } if clients.settings.listing == Listing::FirstUser => {
                clients.take_lists();
            }
            Event::Updated { session: Some(_), .. } => {
                let _ = clients.listing.events().send(event);
            }
            _ => {}
        }
    }
}

impl UserClients {
    /// Serves the lists of the first user that has connected.
    fn take_lists(&self) {
        if self.listing.catalog().version > 0 {
            return;
        }
        let open = self.open.lock();
        let found = open.values().find(|user| user.client.catalog().version > 0);
        if let Some(user) = found {
            self.listing.continue_from(&user.client);
        }
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

    /// Returns the status of the connection for lists. Before the first user has connected, a
    /// refusal is no failure of the server.
    fn status(&self) -> Arc<Status> {
        let status = self.listing.status();
        if !self.awaits_first_user() {
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
        let slug = self.slug();
        let text = json!({
            "name": CONNECT_TOOL,
            "description": format!(
                "Connects your account at the server {slug}, whose tools are listed afterwards."
            ),
            "inputSchema": {"type": "object"},
        });
        let text = text.to_string().into();
        let tools = vec![Item { key: CONNECT_TOOL.into(), text, headers: None }];
        // Without announced changes, so that clients do not cache it beyond the first account.
        let offers = Offers { tools: true, ..Offers::default() };
        // Differs from the version of any list.
        Arc::new(Catalog { version: u64::MAX, tools, offers, ..Catalog::default() })
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
            let Some(view) = call.caller_view else {
                let words = "the request has no caller, so it has no account at the server";
                return Err(UpstreamError::new(UpstreamErrorKind::NeedsAuth, words));
            };
            let Some(mut holder) = holder_of(view) else {
                let words =
                    "callers without credentials share an identity, so they have no account";
                return Err(UpstreamError::new(UpstreamErrorKind::NeedsAuth, words));
            };
            if self.settings.method.exchanges_tokens() {
                let token = view.access_token();
                let token = token.map(|(text, expires_at)| SubjectToken::new(text, expires_at));
                holder.token = token.map(Arc::new);
            }
            self.call_as(&holder, call).await
        })
    }

    fn wait_for_account<'a>(&'a self, caller: &'a dyn CallerView) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let Some(holder) = holder_of(caller) else { return };
            let Ok(account) = self.accounts.load(self.slug(), &holder).await else { return };
            while matches!(account.state(), AccountState::NeedsConnect | AccountState::NeedsScope) {
                tokio::time::sleep(ACCOUNT_POLL).await;
            }
        })
    }

    /// Rejects subscriptions: they are not attributed to a holder.
    fn subscribe<'a>(
        &'a self,
        _: &'a str,
        _: &'a Caller,
    ) -> BoxFuture<'a, Result<Subscription, UpstreamError>> {
        let words = "subscriptions are not available at a server with accounts of users";
        let refused = Err(UpstreamError::new(UpstreamErrorKind::Garbage, words));
        Box::pin(std::future::ready(refused))
    }

    fn unsubscribe<'a>(&'a self, _: &'a str, _: Subscription) -> BoxFuture<'a, ()> {
        Box::pin(std::future::ready(()))
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
