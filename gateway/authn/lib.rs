//! Authenticates callers: turns credentials into principals. Credentials are API keys, tokens of
//! configured issuers, client certificates, or the user of this machine. Scopes are checked here;
//! policy is elsewhere. The only I/O is to issuers, through egress.

mod certificate;
mod claims;
mod config;
mod discovery;
mod identity;
mod jwks;
pub mod key;
mod principal;
mod provider;
mod resource;
mod scope;
pub mod signer;
mod token;

use std::net::IpAddr;
use std::sync::Arc;

pub use certificate::{CERTIFICATE, Certificate, ClientCertificateError, read_expiry};
pub use config::{Anonymous, Claims, Config, Issuer, RoleHolders, Scopes, SignIn, ToolScopes};
pub use discovery::fetch_json;
pub use identity::{ANONYMOUS, AccessToken, DEFAULT_ORGANISATION, Identity, KEY, LOCAL};
pub use jsonwebtoken::Algorithm;
pub use jwks::KeySetState;
pub use lockgate_admission::Role;
pub use principal::{AuthnError, Holder, Principal, RefusedCaller, RefusedToken};
pub use provider::{Answer, Attempt, Provider, SignInError};
pub use resource::{Resource, WELL_KNOWN};
pub use scope::is_scope;
pub use signer::{KEY_SET, Signer};

use lockgate_egress::Connector;
use lockgate_text::date;
use resource::{error_of, write_challenge};
use scope::Needs;
use token::{Shown, Tokens};

/// The credentials of a caller. The listener builds them from the connection and the
/// `Authorization` header alone.
#[derive(Clone)]
pub struct Credentials {
    pub peer: Peer,
    /// The token of `Authorization: Bearer …`.
    pub bearer: Option<String>,
    /// A client certificate for which TLS has verified possession of the private key.
    pub certificate: Option<Arc<Certificate>>,
}

/// The origin of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// The parent process, over stdin and stdout.
    Stdio,
    /// A direct TCP connection.
    Address(IpAddr),
    /// A TCP connection through a proxy, according to headers of the request.
    Forwarded(IpAddr),
}

/// The authentication of callers for a given configuration.
pub struct Authenticator {
    /// BLAKE3 of the single key. Comparing hashes takes the same time for every guess.
    single: Option<blake3::Hash>,
    holder: Principal,
    ring: key::Ring,
    tokens: Option<Tokens>,
    /// Whether any credential is configured; if so, a bearer credential is never ignored.
    has_credentials: bool,
    certificates: bool,
    /// Whether connections from this machine, and from elsewhere, need no credentials.
    open: [bool; 2],
    local: Principal,
    anonymous: Principal,
    needs: Arc<Needs>,
    role_holders: RoleHolders,
    provider: Option<Provider>,
    takes_keys: bool,
}

impl Authenticator {
    /// Starts fetching the keys of issuers. Issuers of `old` with the same configuration are kept.
    /// Requires a Tokio runtime.
    ///
    /// # Errors
    /// A glob of a tool's scopes does not compile.
    pub fn start(
        config: &Config,
        connector: &Arc<Connector>,
        old: Option<&Self>,
    ) -> Result<Self, globset::Error> {
        let _ = jsonwebtoken::crypto::aws_lc::DEFAULT_PROVIDER.install_default();
        let needs = Arc::new(Needs::compile(&config.scopes)?);
        let keys = config.keys.as_deref().unwrap_or(&[]);
        let ring = key::Ring::new(keys, |scopes| config.scopes.expand(scopes));
        let tokens = old.and_then(|old| old.tokens.as_ref());
        let tokens = Tokens::start(config, connector, tokens);
        let provider = start_provider(config, connector, tokens.as_ref(), &needs);
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

    /// Authenticates a caller at an endpoint. Waits only for the keys of an issuer, and only for a
    /// token that was not verified recently.
    ///
    /// A bearer credential decides alone: if it is invalid, it is not ignored in favour of a
    /// certificate or an address. An expired certificate is rejected even if its connection began
    /// in time.
    pub async fn authenticate(
        &self,
        credentials: &Credentials,
        at: Resource<'_>,
    ) -> Result<Principal, RefusedCaller> {
        let certificate = credentials.certificate.as_ref();
        if let Some(certificate) = certificate
            && !certificate.is_in_date(date::now())
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
            return self.ring.find(bearer, digest, date::now);
        }
        match &self.tokens {
            Some(tokens) => tokens.holder(bearer, digest.as_bytes(), &self.needs, shown).await,
            None => Err(AuthnError::Invalid.into()),
        }
    }

    pub fn has_credentials(&self) -> bool {
        self.has_credentials
    }

    /// Returns the caller with its current grants. A key's holder receives the key's roles and
    /// scopes, or `None` if the key is no longer valid, belongs to another organisation or lacks a
    /// scope that every request needs. Other callers are unchanged.
    pub fn current(&self, caller: &Principal) -> Option<Principal> {
        if *caller.issuer != *KEY {
            return Some(caller.clone());
        }
        let now = match &self.single {
            Some(_) if *caller == self.holder => caller.clone(),
            _ => self.ring.holder(&caller.subject, date::now)?.clone().with_certificate_of(caller),
        };
        let is_same = now == *caller && self.needs.base(&now);
        if is_same { Some(now) } else { None }
    }

    /// Returns the current grants of a console visitor. A visitor that signed in at a provider is
    /// accepted only while sign-in at that provider is configured.
    pub fn current_visitor(&self, visitor: &Principal) -> Option<Principal> {
        let provider = self.provider.as_ref().map(|provider| &*provider.config.issuer);
        let is_of_provider = provider == Some(&*visitor.issuer);
        if *visitor.issuer != *KEY && !is_of_provider { None } else { self.current(visitor) }
    }

    /// Returns the provider at which visitors of the console sign in, if any.
    pub fn provider(&self) -> Option<&Provider> {
        self.provider.as_ref()
    }

    /// Returns whether API keys are configured, with which visitors can sign in.
    pub fn takes_keys(&self) -> bool {
        self.takes_keys
    }

    pub fn role_of(&self, caller: &Principal) -> Role {
        self.role_holders.role_of(caller)
    }

    /// Returns the `WWW-Authenticate` value for a refusal at an endpoint.
    pub fn challenge(&self, unknown: AuthnError, at: Resource<'_>) -> String {
        let words = unknown.to_string();
        let words = words.split(':').next().unwrap_or("");
        self.write_challenge(unknown, words, None, at)
    }

    fn write_challenge(
        &self,
        why: AuthnError,
        words: &str,
        scopes: Option<&str>,
        at: Resource<'_>,
    ) -> String {
        let error = error_of(why).map(|error| (error, words));
        match &self.tokens {
            Some(tokens) => tokens.names().challenge(error, scopes, at),
            None => write_challenge(error, scopes.unwrap_or(""), None),
        }
    }

    /// Returns the scopes of a key and, transitively, the scopes that they imply.
    pub fn expand_scopes(&self, granted: &[String]) -> Box<[Arc<str>]> {
        self.needs.scopes.expand(granted)
    }

    /// Checks that the caller has the scopes that a call of a tool needs.
    ///
    /// # Errors
    /// [`AuthnError::Scope`], or [`AuthnError::Missing`] for an anonymous caller, with a
    /// `WWW-Authenticate` value that lists all of these scopes.
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
        Err((why, self.write_challenge(why, words, Some(&scopes), at)))
    }

    pub fn key_sets(&self) -> Vec<KeySetState> {
        self.tokens.as_ref().map_or(Vec::new(), |tokens| tokens.key_sets())
    }

    /// Returns the protected resource metadata for a path that begins with [`WELL_KNOWN`], if
    /// tokens are accepted.
    pub fn metadata(&self, path: &str) -> Option<String> {
        self.tokens.as_ref()?.names().document(path)
    }
}

fn start_provider(
    config: &Config,
    connector: &Arc<Connector>,
    tokens: Option<&Tokens>,
    needs: &Arc<Needs>,
) -> Option<Provider> {
    let sign_in = config.sign_in.as_ref()?;
    let issuer = tokens?.find_issuer(&sign_in.issuer)?;
    let issuer = Arc::clone(issuer);
    let connector = Arc::clone(connector);
    Some(Provider::new(sign_in.clone(), issuer, connector, Arc::clone(needs)))
}

/// Returns the error for a caller that lacks a scope. An anonymous caller is asked to authenticate,
/// not to obtain more scopes.
fn lacks_scopes(caller: &Principal) -> AuthnError {
    if &*caller.issuer == ANONYMOUS { AuthnError::Missing } else { AuthnError::Scope }
}

// Redacts the bearer token.
lockgate_text::debug_fields!(Credentials: peer, certificate);

#[cfg(test)]
pub(crate) mod tests;
