//! An account at one server: the grant of one holder, or the gateway's own. The grant is read from
//! memory; a single request at a time replaces it. A failed refresh never falls back to another
//! credential.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwapOption;
use http::{HeaderValue, StatusCode};
use parking_lot::Mutex;

use crate::authorization::choose_scopes;
use crate::challenge::Challenge;
use crate::client_identity::ClientIdentity;
use crate::config::Method;
use crate::discovery::Discovered;
use crate::error::AccountError;
use crate::holder::Holder;
use crate::server::AccountServer;
use crate::token_endpoint::{Tokens, request_tokens};

/// How long before its expiry a token is refreshed, at most a tenth of its lifetime.
const REFRESH_AHEAD: Duration = Duration::from_secs(60);
/// Pause after a failed refresh in the background.
const REFRESH_PAUSE: Duration = Duration::from_secs(5);

/// A credential of one holder at one server.
pub struct Account {
    /// `None` for the gateway's own account.
    holder: Option<Holder>,
    pub(crate) server: Arc<AccountServer>,
    grant: ArcSwapOption<Grant>,
    /// Held while the grant is replaced.
    replacing: tokio::sync::Mutex<()>,
    /// Whether a refresh runs in the background.
    is_refreshing: AtomicBool,
    needs: Mutex<Needs>,
}

/// Tokens, and the authorization server, client and resource that they are bound to.
pub(crate) struct Grant {
    tokens: Tokens,
    scopes: Vec<String>,
    issuer: String,
    resource: String,
    client: ClientIdentity,
    /// When to refresh ahead of the expiry, and the expiry.
    times: Option<(SystemTime, SystemTime)>,
}

/// Requirements of an account, and its last failure.
#[derive(Default)]
struct Needs {
    /// Scopes that the server required beyond those granted.
    scopes: Vec<String>,
    last_refusal: Refusal,
    last_failure: Option<AccountError>,
}

/// The kind of the server's last refusal.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Refusal {
    /// 401: another token may be accepted.
    #[default]
    Token,
    /// 403 for lack of scopes.
    Scope,
    /// 403 for another reason, which no token changes.
    Other,
}

/// The state of an account, for its holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccountState {
    Connected,
    NeedsConnect,
    NeedsScope,
    Failed,
}

impl AccountState {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Connected => "connected",
            Self::NeedsConnect => "needs_connect",
            Self::NeedsScope => "needs_scope",
            Self::Failed => "failed",
        }
    }
}

impl Grant {
    pub(crate) fn new(
        tokens: Tokens,
        requested: Vec<String>,
        found: &Discovered,
        client: ClientIdentity,
    ) -> Self {
        let now = SystemTime::now();
        let times = tokens.lifetime.map(|lifetime| {
            let ahead = REFRESH_AHEAD.min(lifetime / 10);
            (now + lifetime - ahead, now + lifetime)
        });
        Self {
            scopes: tokens.scopes.clone().unwrap_or(requested),
            tokens,
            issuer: found.server.issuer.clone(),
            resource: found.resource.clone(),
            client,
            times,
        }
    }
}

impl Account {
    pub(crate) fn new(holder: Option<Holder>, server: Arc<AccountServer>) -> Self {
        Self {
            holder,
            server,
            grant: ArcSwapOption::empty(),
            replacing: tokio::sync::Mutex::default(),
            is_refreshing: AtomicBool::new(false),
            needs: Mutex::default(),
        }
    }

    /// Returns the value of `Authorization`; `None` without a grant. Starts a refresh if it expires
    /// soon. No I/O.
    pub fn header(self: &Arc<Self>) -> Option<HeaderValue> {
        let grant = self.grant.load();
        let grant = grant.as_ref()?;
        if let Some((due, _)) = grant.times
            && due <= SystemTime::now()
        {
            self.refresh_in_background(grant.tokens.header.clone());
        }
        Some(grant.tokens.header.clone())
    }

    /// Waits until the account has a token that has not expired.
    ///
    /// # Errors
    /// There is none.
    pub async fn prepare(&self) -> Result<(), AccountError> {
        let rejected = match &*self.grant.load() {
            Some(grant) if grant.times.is_none_or(|(_, end)| end > SystemTime::now()) => {
                return Ok(());
            }
            Some(grant) => Some(grant.tokens.header.clone()),
            None if self.holder.is_some() => return Err(AccountError::NotConnected),
            // Connections for the lists of a server with accounts of users have no credential.
            None if self.server.config.method.is_per_user() => return Ok(()),
            None => None,
        };
        self.renew(rejected.as_ref()).await
    }

    /// Replaces a token that the server rejected. Concurrent callers share one request.
    ///
    /// # Errors
    /// There is no other token.
    pub async fn renew(&self, rejected: Option<&HeaderValue>) -> Result<(), AccountError> {
        let _turn = self.replacing.lock().await;
        let grant = self.grant.load_full();
        let method = self.server.config.method;
        match (&grant, self.needs.lock().last_refusal) {
            (Some(grant), _) if Some(&grant.tokens.header) != rejected => return Ok(()),
            (None, _) if method.is_per_user() => return Err(AccountError::NotConnected),
            (_, Refusal::Other) => return Err(AccountError::Forbidden),
            (_, Refusal::Scope) if method.is_per_user() => return Err(AccountError::NeedsScope),
            _ => {}
        }
        let replaced = match method {
            Method::ClientCredentials => self.request_own().await,
            Method::User => self.refresh(grant.as_deref()).await,
        };
        match replaced {
            Ok(grant) => {
                self.accept(grant);
                Ok(())
            }
            Err(error) => {
                self.fail(&error, grant.as_deref()).await;
                Err(error)
            }
        }
    }

    /// Obtains a token for the gateway itself.
    async fn request_own(&self) -> Result<Grant, AccountError> {
        let found = self.server.discovered().await?;
        let client = self.server.client(&found.server).await?;
        let mut needed = self.server.challenged_scopes();
        needed.extend(self.needs.lock().scopes.iter().cloned());
        let mut scopes = choose_scopes(&needed, &found, self.server.config.scopes.as_deref());
        scopes.retain(|scope| scope != "offline_access");
        let scope = scopes.join(" ");
        let mut parameters =
            vec![("grant_type", "client_credentials"), ("resource", found.resource.as_str())];
        if !scope.is_empty() {
            parameters.push(("scope", &scope));
        }
        let fetcher = &self.server.fetcher;
        let tokens = request_tokens(fetcher, &found.server, &client, &parameters).await?;
        Ok(Grant::new(tokens, scopes, &found, client))
    }

    /// Exchanges the refresh token at the authorization server that issued it.
    async fn refresh(&self, grant: Option<&Grant>) -> Result<Grant, AccountError> {
        let Some(grant) = grant else { return Err(AccountError::NotConnected) };
        let Some(refresh) = &grant.tokens.refresh else { return Err(AccountError::InvalidGrant) };
        // The server refused a valid token: it may name another authorization server now.
        if grant.times.is_none_or(|(due, _)| due > SystemTime::now()) {
            self.server.forget_metadata().await;
        }
        let found = self.server.discovered().await?;
        if found.server.issuer != grant.issuer {
            return Err(AccountError::InvalidGrant);
        }
        let parameters = [
            ("grant_type", "refresh_token"),
            ("refresh_token", refresh.expose()),
            ("resource", &*grant.resource),
        ];
        let fetcher = &self.server.fetcher;
        let mut tokens = request_tokens(fetcher, &found.server, &grant.client, &parameters).await?;
        // Without a new refresh token the old one stays valid (RFC 6749, section 6).
        tokens.refresh = tokens.refresh.or_else(|| Some(refresh.clone()));
        Ok(Grant::new(tokens, grant.scopes.clone(), &found, grant.client.clone()))
    }

    /// Adopts the grant of a new authorization, after a refresh in progress.
    pub(crate) async fn connect(&self, grant: Grant) {
        let _turn = self.replacing.lock().await;
        self.accept(grant);
    }

    fn accept(&self, grant: Grant) {
        let mut needs = self.needs.lock();
        needs.scopes.retain(|scope| !grant.scopes.contains(scope));
        needs.last_failure = None;
        needs.last_refusal = Refusal::Token;
        self.grant.store(Some(Arc::new(grant)));
    }

    /// Records a failed replacement. Only a refusal of the grant or the client ends the grant.
    async fn fail(&self, error: &AccountError, grant: Option<&Grant>) {
        let is_over = matches!(error, AccountError::InvalidGrant | AccountError::InvalidClient);
        tracing::warn!(
            server = self.server.slug,
            holder = self.holder.as_ref().map(|holder| &*holder.subject),
            is_over,
            "a token could not be obtained: {error}"
        );
        self.needs.lock().last_failure = Some(error.clone());
        if is_over {
            self.grant.store(None);
        }
        if let (AccountError::InvalidClient, Some(grant)) = (error, grant) {
            self.server.forget_client(&grant.issuer).await;
        }
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

    /// Records the challenge of a response with status 401 or 403.
    pub fn note_refusal<'a>(&self, status: StatusCode, headers: impl Iterator<Item = &'a str>) {
        let challenge = Challenge::read(headers).unwrap_or_default();
        self.server.note(&challenge);
        let mut needs = self.needs.lock();
        needs.last_refusal = match status {
            StatusCode::UNAUTHORIZED => Refusal::Token,
            _ if challenge.is_insufficient_scope() => Refusal::Scope,
            _ => Refusal::Other,
        };
        if needs.last_refusal == Refusal::Scope {
            for scope in challenge.scopes() {
                if !needs.scopes.contains(&scope) {
                    needs.scopes.push(scope);
                }
            }
        }
    }

    /// Returns the scopes that the next authorization has to include: those granted and those that
    /// the server required.
    #[must_use]
    pub fn needed_scopes(&self) -> Vec<String> {
        let mut scopes = match &*self.grant.load() {
            Some(grant) => grant.scopes.clone(),
            None => self.server.challenged_scopes(),
        };
        scopes.extend(self.needs.lock().scopes.iter().cloned());
        scopes
    }

    /// Returns why the server refused the last request with this account.
    #[must_use]
    pub fn trouble(&self) -> AccountError {
        let needs = self.needs.lock();
        match (needs.last_refusal, &needs.last_failure) {
            _ if !self.is_connected() => AccountError::NotConnected,
            (Refusal::Other, _) => AccountError::Forbidden,
            (Refusal::Scope, _) => AccountError::NeedsScope,
            (Refusal::Token, Some(failure)) => failure.clone(),
            (Refusal::Token, None) => AccountError::NotConnected,
        }
    }

    #[must_use]
    pub fn state(&self) -> AccountState {
        let needs = self.needs.lock();
        match (&*self.grant.load(), &needs.last_failure) {
            (None, _) => AccountState::NeedsConnect,
            (Some(_), _) if !needs.scopes.is_empty() => AccountState::NeedsScope,
            (Some(_), Some(_)) => AccountState::Failed,
            (Some(_), None) => AccountState::Connected,
        }
    }

    /// Returns whether there is a grant.
    #[must_use]
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
