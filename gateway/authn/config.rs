//! The validated configuration of authentication. It reads no file and no environment.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use jsonwebtoken::Algorithm;
use lockgate_admission::Role;
use lockgate_text::setting::{List, Seconds, Text, Whole};
use lockgate_text::settings;
use url::Url;

use crate::key::Key;
use crate::{Holder, LOCAL, Principal};

settings! {
    // Accepted credentials and their permissions. Issuers have distinct URLs.

    pub struct Config as "Auth" {
        /// The bearer key that every caller must send, 16–4096 characters. A reference:
        /// `${LOCKGATE_KEY}` or `file:PATH`.
        pub key: Option<String> = Option<Text>,
        /// File of API keys (YAML or JSON), read again when it changes; `lockgate keys` writes it.
        /// Relative to this file.
        pub keys_file: Option<PathBuf> = Option<Text>,
        /// Callers accepted without a credential: `never` none, `loopback` those on this machine,
        /// `everywhere` all. By default those on this machine, unless an authentication method is
        /// configured.
        pub anonymous: Anonymous = Option<Anonymous> => Option::unwrap_or_default,
        /// Issuers of OAuth access tokens (JWT), by a name of your choice; at most 32.
        pub issuers: BTreeMap<String, Issuer>,
        /// Verified tokens that are cached for at most a minute, 0–1000000.
        pub token_cache: usize = Whole<0, 1_000_000, 10_000>,
        /// Scopes that tokens and keys must have.
        pub scopes: Scopes,
        /// Keys of the keys file; `None` if no file is configured. This value and the following are
        /// not keys of `auth`.
        @serde(skip)
        pub keys: Option<Vec<Key>>,
        /// The public URL of the gateway, without a trailing slash. Identifies endpoints as OAuth
        /// resources.
        @serde(skip)
        pub public_url: Option<Url>,
        /// Whether client certificates are requested; a verified certificate authenticates the
        /// caller.
        @serde(skip)
        pub certificates: bool,
        @serde(skip)
        pub role_holders: RoleHolders,
        /// Issuer and keys of the identity statements to servers, if enabled.
        @serde(skip)
        pub signer: Option<crate::signer::Config>,
        @serde(skip)
        pub sign_in: Option<SignIn>,
        /// Whether access tokens are kept in memory, because a server requires their exchange.
        @serde(skip)
        pub keeps_tokens: bool,
    }

    /// The callers that need no credential.
    #[derive(Default)]
    #[serde(rename_all = "lowercase")]
    pub enum Anonymous {
        // The user of this machine if no credential is configured, none otherwise.
        #[default]
        #[serde(skip)]
        Default,
        Never,
        // Connections from this machine, as its user.
        Loopback,
        // All callers: as the user of this machine on its own connections, else as a shared
        // anonymous principal.
        Everywhere,
    }

    /// Tokens are accepted if they are signed by this issuer for the endpoint that is called.
    #[derive(Debug)]
    pub struct Issuer as "Issuer" {
        /// The `iss` of its tokens, exactly: an https:// URL.
        pub issuer: String = Text | "",
        /// Address of its keys; by default taken from its metadata.
        pub jwks_uri: Option<String> = Option<Text>,
        /// Audiences accepted at every endpoint, besides the URL of the endpoint itself. Default
        /// none.
        pub audiences: Vec<String> = List,
        /// Of RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384 and EdDSA. Default `RS256,
        /// PS256, ES256, ES384, EdDSA`.
        @serde(rename = "algorithms")
        pub algorithm_names: Vec<String> = List | ["RS256", "PS256", "ES256", "ES384", "EdDSA"],
        /// Names of its claims.
        pub claims: Claims,
        /// How often its keys are fetched, 10–86400 s.
        pub refresh: Duration = Seconds<10, 86_400, 300>,
        /// Least time between two fetches because of unknown keys, 1–3600 s.
        pub cooldown: Duration = Seconds<1, 3600, 30>,
        /// How long its keys are used while they cannot be fetched, 0–604800 s.
        pub stale: Duration = Seconds<0, 604_800, 86_400>,
        /// Tolerated difference between its clock and the gateway's, 0–300 s.
        @serde(rename = "clock_skew")
        pub skew: Duration = Seconds<0, 300, 30>,
        /// The address in `jwks_uri`; `None` for discovery.
        @serde(skip)
        pub jwks: Option<Url>,
        /// Never symmetric.
        @serde(skip)
        pub algorithms: Vec<Algorithm>,
    }

    /// Names of claims, or JSON Pointers (`/realm_access/roles`).
    #[derive(Debug)]
    pub struct Claims as "Claims" {
        /// Default `sub`.
        pub subject: String = Text | "sub",
        /// Default none.
        pub organisation: Option<String> = Option<Text>,
        /// Default none.
        pub roles: Option<String> = Option<Text>,
        /// Default `scope`, else `scp`.
        pub scopes: Vec<String> = Option<Text> => or_scope,
        /// The software that acts on behalf of the subject. Default `client_id`, else `azp`.
        pub agent: Vec<String> = Option<Text> => or_client,
    }

    #[derive(Debug)]
    pub struct Scopes as "Scopes" {
        /// For every request. Default none.
        pub required: Vec<String> = List,
        /// Further scopes for calls of tools: pattern over `server/tool` → scopes.
        pub tools: Vec<ToolScopes> = BTreeMap<String, List> => tool_scopes,
        /// Broad scope → scopes that it includes.
        pub implies: BTreeMap<String, Vec<String>> = BTreeMap<String, List>,
    }
}

/// The gateway as a client of an OpenID provider.
#[derive(Clone, PartialEq, Eq)]
pub struct SignIn {
    /// The URL of a configured token issuer.
    pub issuer: String,
    pub client_id: String,
    /// `None` for a public client.
    pub client_secret: Option<String>,
    /// Includes `openid`.
    pub scopes: Vec<String>,
    /// The URL to which the provider redirects the browser.
    pub redirect: Url,
}

/// The first present claim is used: a list, or text separated by spaces.
fn or_scope(given: Option<Text>) -> Vec<String> {
    given.map_or_else(|| List::from(["scope", "scp"]).0, |Text(name)| vec![name])
}

fn or_client(given: Option<Text>) -> Vec<String> {
    given.map_or_else(|| List::from(["client_id", "azp"]).0, |Text(name)| vec![name])
}

fn tool_scopes(given: BTreeMap<String, List>) -> Vec<ToolScopes> {
    let all = given.into_iter();
    all.map(|(glob, List(scopes))| ToolScopes { tools: vec![glob], scopes }).collect()
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolScopes {
    /// Globs over `server__tool` and `server/tool`.
    pub tools: Vec<String>,
    pub scopes: Vec<String>,
}

impl Config {
    /// Returns whether callers from other machines can authenticate, or need not.
    pub fn admits_others(&self) -> bool {
        self.has_credentials() || self.anonymous == Anonymous::Everywhere
    }

    /// Returns whether any credential is configured.
    pub fn has_credentials(&self) -> bool {
        let takes_keys = self.key.is_some() || self.keys.is_some();
        takes_keys || !self.issuers.is_empty() || self.certificates
    }
}

// Redacts the client secret.
lockgate_text::debug_fields!(SignIn: issuer, client_id, scopes, redirect);

// Redacts the key.
lockgate_text::debug_fields!(
    Config: keys, issuers, public_url, certificates, anonymous, scopes, sign_in, signer
);

// Administrative roles, which the operator's configuration alone assigns. A role of the same name
// in a credential has no effect unless the configuration names it as a holder.

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RoleHolders {
    /// Whether the user of this machine is an operator, unless a proxy sends the request. Set only
    /// where other users cannot reach the gateway.
    pub trusts_local: bool,
    pub operators: Vec<Holder>,
    /// Administrators of their own organisation.
    pub admins: Vec<Holder>,
}

impl RoleHolders {
    pub fn role_of(&self, caller: &Principal) -> Role {
        let is_local = *caller.issuer == *LOCAL && !caller.is_forwarded();
        let is_trusted = self.trusts_local && is_local;
        if is_trusted || is_named(caller, &self.operators) {
            Role::Operator
        } else if is_named(caller, &self.admins) {
            Role::Admin
        } else {
            Role::User
        }
    }
}

fn is_named(caller: &Principal, holders: &[Holder]) -> bool {
    holders.iter().any(|holder| holder.names(caller))
}

#[cfg(test)]
mod tests;
