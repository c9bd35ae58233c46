//! The validated configuration of accounts. Reads no files and no environment.

use std::collections::BTreeMap;
use std::time::Duration;

use http::HeaderName;
use lockgate_store::Secret;
use url::Url;

use crate::client_key::ClientKey;

/// Accounts at all servers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// The gateway's address for browsers; present if a server has accounts of users.
    pub public_url: Option<Url>,
    /// The gateway's secrets, which sign links; empty for a key that lives as long as the process.
    pub link_secrets: Vec<Secret>,
    /// By the server's slug; servers without `auth` are absent.
    pub servers: BTreeMap<String, ServerConfig>,
}

/// How the gateway authenticates at a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerConfig {
    pub method: Method,
    /// The server's address.
    pub url: Url,
    /// The only authorization server to use; `None` for the one that the server names.
    pub issuer: Option<String>,
    /// The client registered by the operator; `None` to register automatically.
    pub client: Option<PreRegistered>,
    /// The scopes that may be requested; `None` for those that the server asks for.
    pub scopes: Option<Vec<String>>,
    pub listing: Listing,
    /// How long a call waits for an account, after its client was asked to open the page.
    pub waits: Duration,
    /// The name of the server at its authorization server, for exchanges.
    pub audience: Option<String>,
    /// The issuer of identity assertions, and the gateway's client there.
    pub provider: Option<(String, PreRegistered)>,
    /// The header of the credential.
    pub header: HeaderName,
}

/// Source of the credential of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// The gateway's own account, for all callers.
    ClientCredentials,
    /// Each caller's own account (authorization code).
    User,
    /// Each caller's own key, which the caller enters once.
    UserKey,
    /// The caller's own access token, exchanged at the server's authorization server (RFC 8693).
    Exchange,
    /// The caller's own access token, exchanged for an identity assertion of its provider.
    IdJag,
}

/// Source of the lists of a server with accounts of users.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Listing {
    /// The server's lists without a credential, or with the headers of the configuration.
    #[default]
    Server,
    /// The lists of the first user that connects.
    FirstUser,
    /// The server's lists with the gateway's own account.
    OwnAccount,
}

/// A client that the operator registered at an authorization server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreRegistered {
    pub id: String,
    pub authentication: Authentication,
}

/// How a client authenticates at the token endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Authentication {
    /// A public client.
    None,
    Secret(Secret),
    /// `private_key_jwt` (RFC 7523).
    Key(ClientKey),
}

impl Method {
    /// Returns whether the caller's own access token is exchanged.
    #[must_use]
    pub fn exchanges_tokens(self) -> bool {
        matches!(self, Self::Exchange | Self::IdJag)
    }

    /// Returns whether each caller has its own grant.
    #[must_use]
    pub fn is_per_user(self) -> bool {
        self != Self::ClientCredentials
    }

    /// Returns whether callers connect accounts on a page. Their grants are stored.
    #[must_use]
    pub fn is_connectable(self) -> bool {
        matches!(self, Self::User | Self::UserKey)
    }
}
