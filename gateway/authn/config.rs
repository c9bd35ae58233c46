//! What authentication needs to know, already validated. It reads no file and no environment.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use jsonwebtoken::Algorithm;
use url::Url;

use crate::key::Key;
use crate::role::RoleHolders;

/// Who may call, and how they show who they are.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Config {
    /// The one key of the simplest setting (at least 16 characters); its holder is the principal
    /// `key`, `default`.
    pub key: Option<String>,
    /// Keys of the keys file; `None` when no file is named.
    pub keys: Option<Vec<Key>>,
    /// Where the keys file is, for those who write it.
    pub keys_file: Option<PathBuf>,
    /// Issuers of tokens, each with a URL of its own.
    pub issuers: Vec<Issuer>,
    /// Verified tokens that are remembered for at most a minute.
    pub token_cache: usize,
    /// Where clients reach the gateway, without a slash at the end. Endpoints are named by it, as
    /// resources of OAuth.
    pub public_url: Option<Url>,
    /// Client certificates are asked for, so a verified one makes a principal.
    pub certificates: bool,
    /// Who may come without any credential.
    pub anonymous: Anonymous,
    pub scopes: Scopes,
    /// Who administers the gateway and its organisations.
    pub role_holders: RoleHolders,
    /// In whose name and with which keys servers are told who calls, if any are.
    pub signer: Option<crate::signer::Config>,
    /// How people sign in to the console through the provider of their organisation, if they can.
    pub sign_in: Option<SignIn>,
}

/// The gateway as a client of an OpenID provider.
#[derive(Clone, PartialEq, Eq)]
pub struct SignIn {
    /// One of the issuers of tokens.
    pub issuer: String,
    pub client_id: String,
    /// None of a public client.
    pub client_secret: Option<String>,
    /// `openid` is among them.
    pub scopes: Vec<String>,
    /// Where the provider sends the browser back to.
    pub redirect: Url,
}

/// Who may come without any credential.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Anonymous {
    /// This machine's user when there is no other way in, nobody when there is one.
    #[default]
    Default,
    Never,
    /// Connections from this machine, as its user.
    Loopback,
    /// Everybody, as one principal; this machine's user as itself.
    Everywhere,
}

/// One issuer of tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issuer {
    /// The `iss` of its tokens, compared exactly.
    pub issuer: String,
    /// Where its keys are; found by discovery without it.
    pub jwks: Option<Url>,
    /// Audiences accepted at every endpoint besides the endpoint's own URL.
    pub audiences: Vec<String>,
    /// Algorithms that its tokens may be signed with. Never symmetric.
    pub algorithms: Vec<Algorithm>,
    pub claims: Claims,
    /// How often its keys are fetched.
    pub refresh: Duration,
    /// Least time between two fetches that unknown key ids ask for.
    pub cooldown: Duration,
    /// How long keys are used when fetching fails.
    pub stale: Duration,
    /// How far its clock and ours may be apart.
    pub skew: Duration,
}

/// Where claims are: a name, or a JSON Pointer when it begins with `/`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claims {
    pub subject: String,
    pub organisation: Option<String>,
    pub roles: Option<String>,
    /// The first of these that is there: text with blanks in between, or a list.
    pub scopes: Vec<String>,
    /// The first of these that is there.
    pub agent: Vec<String>,
}

/// Which scopes callers need.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scopes {
    /// For every request.
    pub required: Vec<String>,
    /// Further ones for calls of tools.
    pub tools: Vec<ToolScopes>,
    /// Scopes that a scope brings along.
    pub implies: BTreeMap<String, Vec<String>>,
}

/// Scopes for some tools.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolScopes {
    /// Globs over `server__tool` and `server/tool`.
    pub tools: Vec<String>,
    pub scopes: Vec<String>,
}

impl Config {
    /// Whether callers from elsewhere can show who they are, or need not.
    #[must_use]
    pub fn admits_others(&self) -> bool {
        self.has_credentials() || self.anonymous == Anonymous::Everywhere
    }

    /// Whether there is a way to show who one is.
    #[must_use]
    pub fn has_credentials(&self) -> bool {
        self.takes_bearers() || self.certificates
    }

    pub(crate) fn takes_bearers(&self) -> bool {
        self.key.is_some() || self.keys.is_some() || !self.issuers.is_empty()
    }
}

impl Default for Claims {
    fn default() -> Self {
        Self {
            subject: "sub".into(),
            organisation: None,
            roles: None,
            scopes: vec!["scope".into(), "scp".into()],
            agent: vec!["client_id".into(), "azp".into()],
        }
    }
}

/// What is shown of a secret: whether there is one.
pub(crate) fn hidden(secret: &Option<String>) -> Option<&'static str> {
    if secret.is_some() { Some("…") } else { None }
}

/// Never shows the secret.
impl fmt::Debug for SignIn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SignIn")
            .field("issuer", &self.issuer)
            .field("client_id", &self.client_id)
            .field("client_secret", &hidden(&self.client_secret))
            .field("scopes", &self.scopes)
            .field("redirect", &self.redirect.as_str())
            .finish()
    }
}

/// Never shows the key.
impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("key", &hidden(&self.key))
            .field("keys", &self.keys)
            .field("issuers", &self.issuers)
            .field("public_url", &self.public_url.as_ref().map(Url::as_str))
            .field("certificates", &self.certificates)
            .field("anonymous", &self.anonymous)
            .field("scopes", &self.scopes)
            .field("sign_in", &self.sign_in)
            .field("signer", &self.signer)
            .finish_non_exhaustive()
    }
}
