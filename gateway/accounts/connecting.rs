//! Connecting an account in a browser: links for callers, and attempts between the authorization
//! request and its response. Ids are random and say nothing. An attempt is used once, within ten
//! minutes, by the browser that started it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use url::Url;

use crate::account::{Account, Grant};
use crate::authorization::{
    AuthorizationRequest, authorization_endpoint, authorization_url, check_response, choose_scopes,
};
use crate::client_identity::ClientIdentity;
use crate::discovery::Discovered;
use crate::error::AccountError;
use crate::holder::Holder;
use crate::random::{lookup_key, random_text};
use crate::registration::{CALLBACK_PATH, below};
use crate::token_endpoint::request_tokens;

/// Lifetime of a link, and of an attempt.
const LIFETIME: Duration = Duration::from_secs(600);
/// Remaining lifetime below which a link is replaced instead of being shown again.
const MIN_REMAINING: Duration = Duration::from_secs(300);
/// Maximum number of links, and of attempts.
const MAX_OPEN: usize = 10_000;
/// Maximum number of attempts of one holder; beyond it, the oldest is dropped.
const MAX_OF_HOLDER: usize = 8;
/// Digits of the state in the name of an attempt's cookie.
const NAME_DIGITS: usize = 8;
/// Prefixes of the cookie names, for https and for loopback.
const PREFIXES: [&str; 2] = ["__Host-lockgate-connect-", "lockgate-connect-"];

/// The link that a caller opens in a browser.
#[derive(Clone, Debug)]
pub struct Link {
    pub url: Url,
    pub expires_at: SystemTime,
}

/// The contents of the consent page.
#[derive(Clone, Debug)]
pub struct Consent {
    pub issuer: String,
    /// The address of the server.
    pub resource: String,
    /// The origin at which the user signs in.
    pub authorization_origin: String,
    pub scopes: Vec<String>,
}

/// A started attempt.
pub struct Started {
    /// The address of the authorization request.
    pub url: Url,
    /// The name and value of the cookie that identifies the browser.
    pub cookie: (String, String),
}

/// The query of an authorization response.
#[derive(Clone, Copy, Default)]
pub struct CallbackQuery<'a> {
    pub state: &'a str,
    pub code: Option<&'a str>,
    pub iss: Option<&'a str>,
    pub error: Option<&'a str>,
}

/// Links and attempts that are open.
#[derive(Default)]
pub(crate) struct Connecting {
    links: HashMap<(String, Holder), OpenLink>,
    /// By the hash of `state`.
    attempts: HashMap<[u8; 32], Attempt>,
}

struct OpenLink {
    id: String,
    until: Instant,
    expires_at: SystemTime,
}

/// An authorization request that awaits its response.
pub(crate) struct Attempt {
    pub(crate) account: Arc<Account>,
    pub(crate) holder: Holder,
    found: Arc<Discovered>,
    client: ClientIdentity,
    redirect: Url,
    scopes: Vec<String>,
    verifier: String,
    cookie: [u8; 32],
    began: Instant,
}

impl Connecting {
    /// Returns the link of a holder to connect a server.
    pub(crate) fn link(
        &mut self,
        slug: &str,
        holder: &Holder,
        public_url: &Url,
    ) -> Result<Link, AccountError> {
        let now = Instant::now();
        let key = (slug.to_owned(), holder.clone());
        let is_fresh = self.links.get(&key).is_some_and(|link| link.until > now + MIN_REMAINING);
        if !is_fresh {
            if self.links.len() >= MAX_OPEN {
                self.links.retain(|_, link| link.until > now);
            }
            if self.links.len() >= MAX_OPEN {
                return Err(AccountError::Internal("too many links to connect accounts are open"));
            }
            let expires_at = SystemTime::now() + LIFETIME;
            let link = OpenLink { id: random_text()?, until: now + LIFETIME, expires_at };
            self.links.insert(key.clone(), link);
        }
        let Some(link) = self.links.get(&key) else {
            return Err(AccountError::Internal("the link is gone"));
        };
        let mut url = below(public_url, &format!("connect/{slug}"));
        url.query_pairs_mut().append_pair("link", &link.id);
        Ok(Link { url, expires_at: link.expires_at })
    }

    /// Returns the holder that a link was made for, unless it has expired.
    pub(crate) fn holder_of(&self, slug: &str, id: &str) -> Option<Holder> {
        let now = Instant::now();
        let wanted = lookup_key(id);
        let mut links = self.links.iter();
        let found = links.find(|((known, _), link)| {
            known == slug && link.until > now && lookup_key(&link.id) == wanted
        });
        found.map(|((_, holder), _)| holder.clone())
    }

    fn keep(&mut self, state: &str, attempt: Attempt) -> Result<(), AccountError> {
        self.attempts.retain(|_, attempt| attempt.began.elapsed() < LIFETIME);
        let of_same = self.attempts.iter().filter(|(_, known)| known.holder == attempt.holder);
        let mut own: Vec<(Instant, [u8; 32])> = of_same.map(|(key, a)| (a.began, *key)).collect();
        own.sort_unstable();
        if own.len() >= MAX_OF_HOLDER {
            self.attempts.remove(&own[0].1);
        }
        if self.attempts.len() >= MAX_OPEN {
            return Err(AccountError::Internal("too many accounts are being connected"));
        }
        self.attempts.insert(lookup_key(state), attempt);
        Ok(())
    }

    /// Takes the attempt of a response, if this browser started it.
    pub(crate) fn take(&mut self, state: &str, cookie: Option<&str>) -> Option<Attempt> {
        let key = lookup_key(state);
        let attempt = self.attempts.get(&key)?;
        if attempt.cookie != lookup_key(cookie?) {
            return None;
        }
        let attempt = self.attempts.remove(&key)?;
        (attempt.began.elapsed() < LIFETIME).then_some(attempt)
    }
}

/// Returns the name of the cookie of the attempt with this state.
pub(crate) fn cookie_name(public_url: &Url, state: &str) -> String {
    let [secure, loopback] = PREFIXES;
    let prefix = if public_url.scheme() == "https" { secure } else { loopback };
    let digits: String = state.chars().take(NAME_DIGITS).collect();
    format!("{prefix}{digits}")
}

/// Describes the authorization that an account needs.
pub(crate) async fn describe(account: &Account) -> Result<Consent, AccountError> {
    let found = account.server.discovered().await?;
    let endpoint = authorization_endpoint(&found.server)?;
    let cap = account.server.config.scopes.as_deref();
    let scopes = choose_scopes(&account.needed_scopes(), &found, cap);
    Ok(Consent {
        issuer: found.server.issuer.clone(),
        resource: found.resource.clone(),
        authorization_origin: endpoint.origin().ascii_serialization(),
        scopes,
    })
}

/// Starts an attempt: returns the address of the authorization request.
pub(crate) async fn start(
    connecting: &parking_lot::Mutex<Connecting>,
    account: Arc<Account>,
    holder: Holder,
    public_url: &Url,
) -> Result<Started, AccountError> {
    let found = account.server.discovered().await?;
    authorization_endpoint(&found.server)?;
    let client = account.server.client(&found.server).await?;
    let cap = account.server.config.scopes.as_deref();
    let scopes = choose_scopes(&account.needed_scopes(), &found, cap);
    let redirect = below(public_url, CALLBACK_PATH);
    let state = random_text()?;
    let verifier = random_text()?;
    let browser = random_text()?;
    let request = AuthorizationRequest {
        client_id: &client.id,
        redirect: &redirect,
        scopes: &scopes,
        state: &state,
        verifier: &verifier,
    };
    let url = authorization_url(&found, &request)?;
    let cookie = lookup_key(&browser);
    let began = Instant::now();
    let attempt =
        Attempt { account, holder, found, client, redirect, scopes, verifier, cookie, began };
    connecting.lock().keep(&state, attempt)?;
    Ok(Started { url, cookie: (cookie_name(public_url, &state), browser) })
}

impl Attempt {
    /// Exchanges the code of the response, and stores the grant.
    pub(crate) async fn finish(self, query: CallbackQuery<'_>) -> Result<(), AccountError> {
        let server = &self.found.server;
        let response = (query.iss, query.code, query.error);
        let code = check_response(&server.issuer, server.announces_issuer, response)?;
        let parameters = [
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", self.redirect.as_str()),
            ("code_verifier", &*self.verifier),
            ("resource", &*self.found.resource),
        ];
        let fetcher = &self.account.server.fetcher;
        let tokens = match request_tokens(fetcher, server, &self.client, &parameters).await {
            Ok(tokens) => tokens,
            Err(error) => {
                if error == AccountError::InvalidClient {
                    self.account.server.forget_client(&server.issuer).await;
                }
                return Err(error);
            }
        };
        let grant = Grant::new(tokens, self.scopes, &self.found, self.client);
        self.account.connect(grant).await;
        Ok(())
    }
}
