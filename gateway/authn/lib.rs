//! Credentials to principal: who is calling. Keys, tokens of configured issuers, client
//! certificates, or this machine's user. It knows no tools and decides on nothing; it opens nothing
//! but, through egress, the key sets of issuers.

mod certificate;
mod claims;
mod clock;
mod config;
mod discovery;
mod fetch;
mod holder;
mod identity;
mod jwks;
pub mod key;
mod principal;
mod provider;
mod refusal;
mod resource;
mod role;
mod scope;
pub mod signer;
mod token;

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

pub use certificate::{CERTIFICATE, Certificate, ClientCertificateError, read_expiry};
pub use config::{Anonymous, Claims, Config, Issuer, Scopes, SignIn, ToolScopes};
pub use fetch::Outside;
pub use holder::Holder;
pub use identity::{ANONYMOUS, DEFAULT_ORGANISATION, Identity, KEY, LOCAL};
pub use jsonwebtoken::Algorithm;
pub use jwks::KeySetState;
pub use principal::Principal;
pub use provider::{Answer, Attempt, SignInError};
pub use refusal::{AuthnError, RefusedCaller, RefusedToken};
pub use resource::{Resource, WELL_KNOWN};
pub use role::{Role, RoleHolders};
pub use scope::is_scope;
pub use signer::{KEY_SET, Signer};

use config::hidden;
use provider::Provider;
use resource::error_of;
use scope::Needs;
use token::{Shown, Tokens};
use url::Url;

/// What a caller brought along. Made by the listener, from the connection and the `Authorization`
/// header alone.
#[derive(Clone)]
pub struct Credentials {
    /// Where the caller is.
    pub peer: Peer,
    /// The token of `Authorization: Bearer …`, if there was one.
    pub bearer: Option<String>,
    /// The certificate that the caller's end of the connection has proved to hold.
    pub certificate: Option<Arc<Certificate>>,
}

/// Where a caller is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// The process that started us, over stdin and stdout.
    Stdio,
    /// A TCP connection.
    Address(IpAddr),
    /// A TCP connection of a proxy, as headers of the request show.
    Forwarded(IpAddr),
}

/// Turns credentials into principals.
pub struct Authenticator {
    /// BLAKE3 of the single key, so that comparing takes the same time for every guess.
    single: Option<blake3::Hash>,
    holder: Principal,
    ring: key::Ring,
    tokens: Option<Tokens>,
    /// Whether there is a way to show who one is; then nothing that is shown is overlooked.
    has_credentials: bool,
    certificates: bool,
    /// Whether connections from here, and from elsewhere, are let in without credentials.
    open: [bool; 2],
    local: Principal,
    anonymous: Principal,
    needs: Needs,
    role_holders: RoleHolders,
    provider: Option<Provider>,
    takes_keys: bool,
}

impl Authenticator {
    /// Starts to fetch the keys of issuers. Those of `old` whose configuration is the same are
    /// kept. Needs a runtime.
    ///
    /// # Errors
    /// A glob of a tool's scopes does not compile.
    pub fn start(
        config: &Config,
        outside: &Outside,
        old: Option<&Self>,
    ) -> Result<Self, globset::Error> {
        let _ = jsonwebtoken::crypto::aws_lc::DEFAULT_PROVIDER.install_default();
        let needs = Needs::compile(&config.scopes)?;
        let keys = config.keys.as_deref().unwrap_or(&[]);
        let ring = key::Ring::new(keys, |scopes| config.scopes.expand(scopes));
        let tokens = old.and_then(|old| old.tokens.as_ref());
        let tokens = Tokens::start(config, outside, tokens);
        let provider = start_provider(config, outside, tokens.as_ref());
        let open = match config.anonymous {
            Anonymous::Default => [!config.has_credentials(), false],
            Anonymous::Never => [false, false],
            Anonymous::Loopback => [true, false],
            Anonymous::Everywhere => [true, true],
        };
        Ok(Self {
            single: config.key.as_ref().map(|key| blake3::hash(key.as_bytes())),
            holder: Principal::new(Identity::new(KEY, "default")),
            ring,
            tokens,
            has_credentials: config.has_credentials(),
            certificates: config.certificates,
            open,
            local: Principal::new(Identity::new(LOCAL, "user")),
            anonymous: Principal::new(Identity::new(ANONYMOUS, "anyone")),
            needs,
            role_holders: config.role_holders.clone(),
            provider,
            takes_keys: config.key.is_some() || config.keys.is_some(),
        })
    }

    /// Who the caller is, at one endpoint. Waits only for the keys of an issuer, and only for a
    /// token that it has not verified lately.
    ///
    /// A bearer credential decides alone: one that is not good is never overlooked in favour of a
    /// certificate or an address, and neither is a certificate that has run out since its
    /// connection began.
    ///
    /// # Errors
    /// [`RefusedCaller`].
    pub async fn authenticate(
        &self,
        credentials: &Credentials,
        at: Resource<'_>,
    ) -> Result<Principal, RefusedCaller> {
        let certificate = credentials.certificate.as_ref();
        if let Some(certificate) = certificate
            && !certificate.is_in_date(clock::now())
        {
            let who = Principal::new(Arc::clone(&certificate.identity));
            return Err(RefusedCaller::known(AuthnError::Expired, &who));
        }
        let principal = match (credentials.peer, &credentials.bearer) {
            (Peer::Stdio, _) => return Ok(self.local.clone()),
            (_, Some(bearer)) if self.has_credentials => {
                let certificate = credentials.certificate.as_deref();
                self.bearer(bearer, Shown { resource: at, certificate }).await?
            }
            (Peer::Address(address) | Peer::Forwarded(address), _) => match certificate {
                Some(certificate) if self.certificates => {
                    Principal::new(Arc::clone(&certificate.identity))
                }
                _ if address.to_canonical().is_loopback() && self.open[0] => {
                    let is_forwarded = matches!(credentials.peer, Peer::Forwarded(_));
                    return Ok(self.local.clone().forwarded(is_forwarded));
                }
                _ if self.open[1] => self.anonymous.clone(),
                _ => return Err(AuthnError::Missing.into()),
            },
        };
        if self.needs.base(&principal) {
            Ok(principal.on(certificate))
        } else {
            Err(RefusedCaller::known(lacks_scopes(&principal), &principal))
        }
    }

    async fn bearer(&self, bearer: &str, shown: Shown<'_>) -> Result<Principal, RefusedCaller> {
        let digest = blake3::hash(bearer.as_bytes());
        if self.single == Some(digest) {
            return Ok(self.holder.clone());
        }
        if bearer.starts_with(key::PREFIX) {
            return self.ring.find(bearer, digest, clock::now);
        }
        match &self.tokens {
            Some(tokens) => tokens.holder(bearer, digest.as_bytes(), &self.needs, shown).await,
            None => Err(AuthnError::Invalid.into()),
        }
    }

    /// Whether there is a way to show who one is.
    #[must_use]
    pub fn has_credentials(&self) -> bool {
        self.has_credentials
    }

    /// What a caller who was let in before has by now: the holder of a key what the key has, if it
    /// is still good and of the same organisation; all others what they came with.
    #[must_use]
    pub fn current(&self, caller: &Principal) -> Option<Principal> {
        if *caller.issuer != *KEY {
            return Some(caller.clone());
        }
        let now = match &self.single {
            Some(_) if *caller == self.holder => caller.clone(),
            _ => self.ring.holder(&caller.subject, clock::now)?.clone().with_certificate_of(caller),
        };
        let is_same = now == *caller && self.needs.base(&now);
        if is_same { Some(now) } else { None }
    }

    /// What somebody who has signed in to the console has by now. Whoever did at a provider is
    /// somebody as long as people sign in there.
    #[must_use]
    pub fn current_visitor(&self, visitor: &Principal) -> Option<Principal> {
        let is_of_provider = matches!(self.sign_in(), Some(to) if *to.issuer == *visitor.issuer);
        if *visitor.issuer != *KEY && !is_of_provider {
            return None;
        }
        self.current(visitor)
    }

    /// Where people sign in to the console beside keys, if they can.
    #[must_use]
    pub fn sign_in(&self) -> Option<&SignIn> {
        Some(self.provider.as_ref()?.config())
    }

    /// Whether there are keys to sign in with.
    #[must_use]
    pub fn takes_keys(&self) -> bool {
        self.takes_keys
    }

    /// Where the browser of somebody goes who wants to sign in at the provider.
    ///
    /// # Errors
    /// The provider cannot be reached, or there is none.
    pub async fn begin_sign_in(&self, attempt: &Attempt) -> Result<Url, SignInError> {
        self.find_provider()?.begin(attempt).await
    }

    /// Whether the provider can be asked to sign people out, as far as that is known.
    #[must_use]
    pub fn ends_sessions(&self) -> bool {
        matches!(&self.provider, Some(provider) if provider.ends_sessions())
    }

    /// Where the browser of somebody goes to be signed out at the provider, if it does that.
    pub async fn end_of_session(&self) -> Option<Url> {
        self.provider.as_ref()?.end().await
    }

    /// Who has signed in at the provider, by what the browser has brought back for an attempt that
    /// was this browser's own. An attempt must not come here twice.
    ///
    /// # Errors
    /// [`SignInError`].
    pub async fn finish_sign_in(
        &self,
        attempt: &Attempt,
        answer: &Answer,
    ) -> Result<Principal, SignInError> {
        let identity = self.find_provider()?.finish(attempt, answer, &self.needs).await?;
        Ok(Principal::new(identity))
    }

    fn find_provider(&self) -> Result<&Provider, SignInError> {
        match &self.provider {
            Some(provider) => Ok(provider),
            None => Err(SignInError::Malformed),
        }
    }

    /// What a caller may administer.
    #[must_use]
    pub fn role_of(&self, caller: &Principal) -> Role {
        self.role_holders.role_of(caller)
    }

    /// The value of `WWW-Authenticate` for a refusal at an endpoint.
    #[must_use]
    pub fn challenge(&self, unknown: AuthnError, at: Resource<'_>) -> String {
        let words = unknown.to_string();
        let words = words.split(':').next().unwrap_or("");
        let error = error_with(unknown, words);
        match (&self.tokens, error) {
            (Some(tokens), _) => tokens.names().challenge(error, None, at),
            (None, Some((error, words))) => {
                format!("Bearer error=\"{error}\", error_description=\"{words}\"")
            }
            (None, None) => "Bearer".into(),
        }
    }

    /// Whether the caller has the scopes that a call of a tool needs. If not: why, and the
    /// challenge with all of them.
    ///
    /// # Errors
    /// [`AuthnError::Scope`], or [`AuthnError::Missing`] of a caller that has shown nothing, with
    /// `WWW-Authenticate`.
    pub fn may_call(
        &self,
        caller: &Principal,
        slug: &str,
        own: &str,
        at: Resource<'_>,
    ) -> Result<(), (AuthnError, String)> {
        let Some(scopes) = self.needs.lacking(caller, slug, own) else { return Ok(()) };
        let scopes = scopes.join(" ");
        let words = "this call needs more scopes";
        let why = lacks_scopes(caller);
        let error = error_with(why, words);
        let challenge = match (&self.tokens, error) {
            (Some(tokens), _) => tokens.names().challenge(error, Some(&scopes), at),
            (None, Some((error, words))) => {
                format!(
                    "Bearer error=\"{error}\", error_description=\"{words}\", scope=\"{scopes}\""
                )
            }
            (None, None) => format!("Bearer scope=\"{scopes}\""),
        };
        Err((why, challenge))
    }

    /// How the keys of the issuers are now.
    #[must_use]
    pub fn key_sets(&self) -> Vec<KeySetState> {
        match &self.tokens {
            Some(tokens) => tokens.key_sets(),
            None => Vec::new(),
        }
    }

    /// The protected resource metadata at a path that begins with [`WELL_KNOWN`], if tokens are
    /// taken.
    #[must_use]
    pub fn metadata(&self, path: &str) -> Option<String> {
        self.tokens.as_ref()?.names().document(path)
    }
}

/// The provider that people sign in at: one of the issuers of tokens.
fn start_provider(config: &Config, outside: &Outside, tokens: Option<&Tokens>) -> Option<Provider> {
    let sign_in = config.sign_in.as_ref()?;
    let issuer = tokens?.find_issuer(&sign_in.issuer)?;
    Some(Provider::new(sign_in.clone(), Arc::clone(issuer), outside.clone()))
}

/// The error of a challenge, if it has one, with words of ours.
fn error_with(why: AuthnError, words: &str) -> Option<(&'static str, &str)> {
    Some((error_of(why)?, words))
}

/// What a caller without a scope that it needs is told. Who has shown nothing is asked to sign in,
/// not for more.
fn lacks_scopes(caller: &Principal) -> AuthnError {
    if &*caller.issuer == ANONYMOUS { AuthnError::Missing } else { AuthnError::Scope }
}

/// Never shows the bearer token.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("peer", &self.peer)
            .field("bearer", &hidden(&self.bearer))
            .field("certificate", &self.certificate)
            .finish()
    }
}

#[cfg(test)]
pub(crate) mod tests;
