//! An account at one server: the grant of one holder, or the gateway's own. The grant is read from
//! memory; a single request at a time replaces it. A failed refresh never falls back to another
//! credential.

mod exchange;
mod kept;
mod needs;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use http::{HeaderName, HeaderValue};
use parking_lot::Mutex;

use crate::authorization::choose_scopes;
use crate::challenge::StepUp;
use crate::config::{Listing, Method, ServerConfig};
use crate::discovery::Discovered;
use crate::error::{AccountError, Result};
use crate::grant::{AccountState, Grant};
use crate::holder::{Holder, record_id};
use crate::records::{AccountEvent, Records};
use crate::server::AccountServer;
use crate::token_endpoint::{JWT_BEARER, request_tokens};
use crate::workload::read_token;

/// Maximum number of refreshes and of changes by other gateways that a caller waits for.
const MAX_TURNS: usize = 3;
/// Pause after a failed refresh in the background, and after a failed exchange.
const REFRESH_PAUSE: Duration = Duration::from_secs(5);

/// A credential of one holder at one server.
pub struct Account {
    /// The id of its stored record.
    pub(crate) id: String,
    /// `None` for the gateway's own account.
    pub(crate) holder: Option<Holder>,
    pub(crate) server: Arc<AccountServer>,
    records: Arc<Records>,
    grant: ArcSwapOption<Grant>,
    /// Set when the stored grant has been read.
    loaded: tokio::sync::OnceCell<()>,
    pub(crate) since: Instant,
    /// Held while the grant is refreshed. A refreshed grant that could not be stored, and the
    /// revision that it replaces.
    replacing: tokio::sync::Mutex<Option<(Grant, i64)>>,
    /// Whether a refresh runs in the background.
    is_refreshing: AtomicBool,
    needs: Mutex<Needs>,
}

/// Requirements of an account, and its last failure.
#[derive(Clone, Default)]
struct Needs {
    /// The revision of the grant, which only increases. A change names the revision it replaces.
    revision: i64,
    /// Scopes that the server required beyond those granted.
    scopes: Vec<String>,
    /// The sign-in that the server required.
    step_up: Option<StepUp>,
    /// Whether other gateways know the requirements.
    is_shared: bool,
    last_refusal: Refusal,
    last_failure: Option<AccountError>,
    failed_at: Option<Instant>,
}

/// The kind of the server's last refusal.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Refusal {
    /// 401: another token may be accepted.
    #[default]
    Token,
    /// The user has to authorize again: 403 for lack of scopes, 401 for another sign-in.
    Scope,
    /// 403 for another reason, which no token changes.
    Other,
}

impl Needs {
    /// Returns whether the user has to authorize again for an operation.
    fn is_waiting(&self) -> bool {
        !self.scopes.is_empty() || self.step_up.is_some()
    }
}

impl Account {
    pub(crate) fn new(
        holder: Option<Holder>,
        server: Arc<AccountServer>,
        records: Arc<Records>,
    ) -> Self {
        let id = holder.as_ref().map(|holder| record_id(holder, &server.slug));
        Self {
            id: id.unwrap_or_default(),
            holder,
            server,
            records,
            grant: ArcSwapOption::empty(),
            loaded: tokio::sync::OnceCell::new(),
            since: Instant::now(),
            replacing: tokio::sync::Mutex::default(),
            is_refreshing: AtomicBool::new(false),
            needs: Mutex::default(),
        }
    }

    /// Returns the value of the header; `None` without a grant.
    pub fn header(&self) -> Option<HeaderValue> {
        self.grant.load().as_ref().map(|grant| grant.header.clone())
    }

    /// Returns the value of the header if it has not expired. Starts a refresh if it expires soon.
    /// No I/O.
    pub fn ready_header(self: &Arc<Self>) -> Option<HeaderValue> {
        let grant = self.grant.load();
        let grant = grant.as_ref()?;
        if self.is_due(grant) {
            self.refresh_in_background(grant.header.clone());
            if !grant.is_fresh() {
                return None;
            }
        }
        Some(grant.header.clone())
    }

    /// Returns whether a grant has to be renewed. One that only its user can replace is used until
    /// it expires.
    fn is_due(&self, grant: &Grant) -> bool {
        let is_renewable = grant.refresh.is_some() || self.holder.is_none();
        if is_renewable { grant.is_due() } else { !grant.is_fresh() }
    }

    /// Returns the name of the header.
    pub fn header_name(&self) -> &HeaderName {
        &self.server.config.header
    }

    /// Waits until the account has a token that has not expired.
    ///
    /// # Errors
    /// There is none.
    pub async fn prepare(self: &Arc<Self>) -> Result<()> {
        let rejected = match &*self.grant.load() {
            Some(grant) if grant.is_fresh() => return Ok(()),
            Some(grant) => Some(grant.header.clone()),
            None => match self.method() {
                // Connections for lists may need no credential.
                None => return Ok(()),
                Some(method) if method.is_connectable() => return Err(AccountError::NotConnected),
                Some(_) => None,
            },
        };
        self.renew(rejected.as_ref()).await
    }

    /// Replaces a token that the server rejected. Concurrent callers share one request, also those
    /// of other gateways with the same store.
    ///
    /// # Errors
    /// There is no other token.
    pub async fn renew(self: &Arc<Self>, rejected: Option<&HeaderValue>) -> Result<()> {
        let account = Arc::clone(self);
        let rejected = rejected.cloned();
        // A separate task: a caller that leaves must not lose the tokens of a response.
        let renewed = tokio::spawn(async move { account.replace(rejected.as_ref()).await });
        let failed = AccountError::Internal("the renewal of a token has failed");
        renewed.await.unwrap_or(Err(failed))
    }

    async fn replace(self: &Arc<Self>, rejected: Option<&HeaderValue>) -> Result<()> {
        let mut unwritten = self.replacing.lock().await;
        let Some(method) = self.method() else { return Err(AccountError::NotConnected) };
        if let Some(error) = self.recent_failure(method) {
            return Err(error);
        }
        for _ in 0..MAX_TURNS {
            let (grant, revision, refusal) = self.current();
            match (&grant, refusal) {
                (Some(grant), _) if Some(&grant.header) != rejected => return Ok(()),
                (None, _) if method.is_connectable() => return Err(AccountError::NotConnected),
                _ if method == Method::UserKey => return Err(AccountError::NotConnected),
                // The refusal concerned one request. Others need a token that has not expired.
                (Some(grant), _) if self.is_due(grant) => {}
                (_, Refusal::Other) => return Err(AccountError::Forbidden),
                (_, Refusal::Scope) if method == Method::User => {
                    return Err(AccountError::NeedsScope);
                }
                _ => {}
            }
            let replaced = match (method, &grant) {
                (Method::User, Some(grant)) => self.refresh(grant, revision, &mut unwritten).await,
                (Method::Exchange | Method::IdJag, _) => self.exchange().await,
                _ => self.request_own(method).await,
            };
            match replaced {
                // Another gateway has replaced it, possibly by the same token.
                Ok(false) => {}
                Ok(true) => return Ok(()),
                Err(error) => {
                    self.fail(&error, revision, grant.as_deref()).await;
                    return Err(error);
                }
            }
        }
        Err(AccountError::Internal("the account is changed by many gateways at once"))
    }

    fn current(&self) -> (Option<Arc<Grant>>, i64, Refusal) {
        let needs = self.needs.lock();
        (self.grant.load_full(), needs.revision, needs.last_refusal)
    }

    /// Obtains a token for the gateway itself.
    async fn request_own(&self, method: Method) -> Result<bool> {
        let found = self.server.discovered().await?;
        let scopes = self.own_scopes(&found);
        let client = self.server.client(&found.server, &scopes).await?;
        let scope = scopes.join(" ");
        let assertion = match &self.server.config.token_file {
            Some(file) if method == Method::Wif => Some(read_token(file).await?),
            _ => None,
        };
        let mut parameters = vec![("resource", found.resource.as_str())];
        match &assertion {
            Some(token) => {
                parameters.extend([("grant_type", JWT_BEARER), ("assertion", token.expose())]);
            }
            None => parameters.push(("grant_type", "client_credentials")),
        }
        if !scope.is_empty() {
            parameters.push(("scope", &scope));
        }
        let fetcher = &self.server.fetcher;
        let tokens = request_tokens(fetcher, &found.server, &client, &parameters).await?;
        self.write(Some(Grant::new(tokens, scopes, &found, client)), None, None).await
    }

    /// Returns the scopes of a request in which no user takes part.
    fn own_scopes(&self, found: &Discovered) -> Vec<String> {
        let mut needed = self.server.challenged_scopes();
        needed.extend(self.needs.lock().scopes.iter().cloned());
        let mut scopes = choose_scopes(&needed, found, self.server.config.scopes.as_deref());
        scopes.retain(|scope| scope != "offline_access");
        scopes
    }

    /// Returns how the account obtains tokens; `None` for the gateway's own account where it reads
    /// no lists.
    fn method(&self) -> Option<Method> {
        let config = &self.server.config;
        match &self.holder {
            Some(_) => Some(config.method),
            None if !config.method.is_per_user() => Some(config.method),
            None if config.listing == Listing::OwnAccount => Some(Method::ClientCredentials),
            None => None,
        }
    }

    /// Returns the failure of an exchange that is not repeated yet.
    fn recent_failure(&self, method: Method) -> Option<AccountError> {
        let needs = self.needs.lock();
        let is_recent = needs.failed_at.is_some_and(|at| at.elapsed() < REFRESH_PAUSE);
        needs.last_failure.clone().filter(|_| method.exchanges_tokens() && is_recent)
    }

    /// Exchanges the refresh token at the authorization server that issued it. Returns `false` if
    /// another gateway has changed the grant.
    async fn refresh(
        self: &Arc<Self>,
        grant: &Grant,
        revision: i64,
        unwritten: &mut Option<(Grant, i64)>,
    ) -> Result<bool> {
        if let Some((new, over)) = unwritten.take()
            && over == revision
        {
            return self.keep_refreshed(new, revision, unwritten).await;
        }
        let Some(refresh) = &grant.refresh else { return Err(AccountError::InvalidGrant) };
        // The server refused a valid token: it may name another authorization server now.
        if !grant.is_due() {
            self.server.forget_metadata().await;
        }
        let found = self.server.discovered_for(&grant.issuer).await?;
        if !self.take_lease(revision).await? {
            return Ok(false);
        }
        let parameters = [
            ("grant_type", "refresh_token"),
            ("refresh_token", refresh.expose()),
            ("resource", &*grant.resource),
        ];
        let fetcher = &self.server.fetcher;
        let answer = request_tokens(fetcher, &found.server, &grant.client, &parameters).await;
        let mut tokens = match answer {
            Ok(tokens) => tokens,
            Err(error) => {
                self.end_lease(revision).await;
                return Err(error);
            }
        };
        // Without a new refresh token the old one stays valid (RFC 6749, section 6).
        tokens.refresh = tokens.refresh.or_else(|| Some(refresh.clone()));
        let mut new = Grant::new(tokens, grant.scopes.clone(), &found, grant.client.clone());
        new.connected_at = grant.connected_at;
        new.upgrades.clone_from(&grant.upgrades);
        self.keep_refreshed(new, revision, unwritten).await
    }

    /// Records a failed replacement. Only a refusal of the grant, or of a client that can register
    /// again, ends the grant.
    async fn fail(&self, error: &AccountError, revision: i64, grant: Option<&Grant>) {
        let client = self.server.config.client.as_ref();
        let of_operator =
            client.is_some_and(|client| grant.is_none_or(|grant| grant.client.id == client.id));
        let is_over = match error {
            AccountError::InvalidClient if of_operator => {
                tracing::error!("check `auth` of the server `{}`: {error}", self.server.slug);
                false
            }
            AccountError::InvalidGrant | AccountError::InvalidClient => true,
            _ => false,
        };
        tracing::warn!(
            server = self.server.slug,
            holder = self.holder.as_ref().map(|holder| &*holder.subject),
            is_over,
            "a token could not be obtained: {error}"
        );
        self.record("fail to refresh account", &[], Some(error));
        // Before the user is asked to connect again.
        if let (AccountError::InvalidClient, Some(grant)) = (error, grant) {
            self.server.forget_client(&grant.issuer, &grant.client.id).await;
        }
        if is_over && self.write(None, Some(revision), Some(error)).await.is_err() {
            // The stored tokens are as dead as those in memory.
            self.grant.store(None);
        }
        let mut needs = self.needs.lock();
        needs.failed_at = Some(Instant::now());
        let is_new = needs.last_failure.replace(error.clone()).is_none();
        drop(needs);
        if is_new && !is_over {
            self.tell(Some(error));
        }
    }

    /// Passes an event to the audit trail, for accounts of users.
    pub(crate) fn record(
        &self,
        action: &'static str,
        scopes: &[String],
        failure: Option<&AccountError>,
    ) {
        let Some(holder) = &self.holder else { return };
        let Some(observer) = self.records.observer() else { return };
        let server = &self.server.slug;
        observer.record(&AccountEvent { action, server, holder, scopes, failure });
    }

    fn refresh_in_background(self: &Arc<Self>, old: HeaderValue) {
        if self.is_refreshing.swap(true, Ordering::AcqRel) {
            return;
        }
        let account = Arc::clone(self);
        tokio::spawn(async move {
            if account.renew(Some(&old)).await.is_err() {
                tokio::time::sleep(REFRESH_PAUSE).await;
            }
            account.is_refreshing.store(false, Ordering::Release);
        });
    }

    /// Returns whether there is a grant without some of these scopes.
    pub(crate) fn lacks_scopes(&self, scopes: &[String]) -> bool {
        let grant = self.grant.load();
        let Some(grant) = &*grant else { return false };
        scopes.iter().any(|scope| !grant.scopes.contains(scope))
    }

    /// Returns why the server refused the last request with this account.
    pub fn trouble(&self) -> AccountError {
        let needs = self.needs.lock();
        match (needs.last_refusal, &needs.last_failure) {
            (_, Some(failure)) if !self.is_connected() && !self.is_connectable() => failure.clone(),
            _ if !self.is_connected() => AccountError::NotConnected,
            (Refusal::Other, _) => AccountError::Forbidden,
            (Refusal::Scope, _) => AccountError::NeedsScope,
            (Refusal::Token, Some(failure)) => failure.clone(),
            (Refusal::Token, None) => AccountError::NotConnected,
        }
    }

    pub fn state(&self) -> AccountState {
        let needs = self.needs.lock();
        match (&*self.grant.load(), &needs.last_failure) {
            (None, _) => AccountState::NeedsConnect,
            (Some(_), _) if needs.is_waiting() => AccountState::NeedsScope,
            (Some(_), Some(_)) => AccountState::Failed,
            (Some(_), None) => AccountState::Connected,
        }
    }

    /// Returns whether it is for a server with these settings.
    pub fn has_settings(&self, settings: &ServerConfig) -> bool {
        self.server.config == *settings
    }

    /// Returns whether its user connects it on a page.
    pub fn is_connectable(&self) -> bool {
        self.server.config.method.is_connectable()
    }

    /// Returns whether there is a grant.
    pub fn is_connected(&self) -> bool {
        self.grant.load().is_some()
    }
}

/// Shows no token.
impl fmt::Debug for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Account")
            .field("server", &self.server.slug)
            .field("holder", &self.holder)
            .field("state", &self.state())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
pub(crate) mod tests;
