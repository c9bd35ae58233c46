//! The validated configuration of accounts. Reads no files and no environment.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use http::HeaderName;
use http::header::AUTHORIZATION;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use lockgate_egress::Policy;
use lockgate_store::Secret;
use lockgate_text::{date, settings};
use rustls_pki_types::PrivatePkcs8KeyDer;
use rustls_pki_types::pem::PemObject;
use serde_json::json;
use url::Url;

use crate::error::{AccountError, Result};
use crate::random::random_text;

/// Accounts at all servers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// The gateway's address for browsers.
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
    /// The file with the token of the workload.
    pub token_file: Option<PathBuf>,
    /// The header of the credential.
    pub header: HeaderName,
    /// The addresses that the hosts of these settings may have; others must be public.
    pub addresses: Policy,
}

impl ServerConfig {
    /// Returns the settings of a server that an organisation has added. The gateway registers
    /// itself as a client, because the organisation's administrators name no issuers.
    pub fn of_members(method: Method, url: Url, addresses: Policy) -> Self {
        Self {
            method,
            url,
            issuer: None,
            client: None,
            scopes: None,
            listing: Listing::FirstUser,
            waits: Duration::ZERO,
            audience: None,
            provider: None,
            token_file: None,
            header: AUTHORIZATION,
            addresses,
        }
    }
}

settings! {
    /// Source of the credential of a call.
    #[serde(rename_all = "snake_case")]
    pub enum Method {
        // Each caller's own account (authorization code).
        User,
        // Each caller's own key, which the caller enters once.
        #[serde(rename = "user_headers")]
        UserKey,
        // The gateway's own account, for all callers.
        ClientCredentials,
        // As `ClientCredentials`, with the token of the workload that the gateway is (RFC 7523).
        Wif,
        // The caller's own access token, exchanged at the server's authorization server (RFC 8693).
        Exchange,
        // The caller's own access token, exchanged for an identity assertion of its provider.
        IdJag,
    }

    /// Source of the lists of a server with accounts of users.
    #[derive(Default)]
    #[serde(rename_all = "snake_case")]
    pub enum Listing {
        // The server's lists without a credential.
        #[default]
        None,
        // The same, with the headers of the configuration.
        Static,
        // The lists of the first user that connects.
        FirstUser,
        // The lists of each user, for that user alone.
        PerUser,
        // The server's lists with the gateway's own account.
        #[serde(rename = "client_credentials")]
        OwnAccount,
    }
}

/// A client that the operator registered at an authorization server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreRegistered {
    /// Empty for a workload without a client id.
    pub id: String,
    pub authentication: Authentication,
}

/// How a client authenticates at the token endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Authentication {
    /// A public client.
    None,
    Secret(Secret),
    /// The secret of a client that the gateway registered itself.
    RegisteredSecret(Secret),
    /// `private_key_jwt` (RFC 7523).
    Key(ClientKey),
}

impl Method {
    /// Returns whether the caller's own access token is exchanged.
    pub fn exchanges_tokens(self) -> bool {
        matches!(self, Self::Exchange | Self::IdJag)
    }

    /// Returns whether each caller has its own grant.
    pub fn is_per_user(self) -> bool {
        !matches!(self, Self::ClientCredentials | Self::Wif)
    }

    /// Returns whether callers connect accounts on a page. Their grants are stored.
    pub fn is_connectable(self) -> bool {
        matches!(self, Self::User | Self::UserKey)
    }
}

// Private keys of clients, for assertions (`private_key_jwt`, RFC 7523): P-256 only, because every
// library verifies ES256.

/// Lifetime of a client assertion, in seconds.
const ASSERTION_LIFETIME: u64 = 60;

/// A private key for client assertions.
#[derive(Clone)]
pub struct ClientKey {
    private: EncodingKey,
    key_id: Option<String>,
    /// Distinguishes keys without comparing private parts.
    digest: [u8; 32],
}

/// The reason that a text is not a key. The message does not quote the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("is not a P-256 private key in PEM (PKCS #8)")]
pub struct ClientKeyError;

impl ClientKey {
    /// Parses a P-256 private key in PEM (PKCS #8), for ES256.
    ///
    /// # Errors
    /// [`ClientKeyError`].
    pub fn from_pem(pem: &str, key_id: Option<String>) -> Result<Self, ClientKeyError> {
        let _ = jsonwebtoken::crypto::aws_lc::DEFAULT_PROVIDER.install_default();
        let der = PrivatePkcs8KeyDer::from_pem_slice(pem.as_bytes()).map_err(|_| ClientKeyError)?;
        let private = EncodingKey::from_ec_der(der.secret_pkcs8_der());
        let digest = *blake3::hash(der.secret_pkcs8_der()).as_bytes();
        let key = Self { private, key_id, digest };
        if key.sign("test", "test").is_ok() { Ok(key) } else { Err(ClientKeyError) }
    }

    /// Signs an assertion of the client for an audience.
    pub(crate) fn sign(&self, client: &str, audience: &str) -> Result<String> {
        let now = date::now();
        let claims = json!({
            "iss": client, "sub": client, "aud": audience, "iat": now,
            "exp": now + ASSERTION_LIFETIME, "jti": random_text()?,
        });
        let header = Header { kid: self.key_id.clone(), ..Header::new(Algorithm::ES256) };
        let signed = jsonwebtoken::encode(&header, &claims, &self.private);
        signed.map_err(|_| AccountError::Internal("the client key cannot sign"))
    }
}

impl PartialEq for ClientKey {
    fn eq(&self, other: &Self) -> bool {
        (self.digest, &self.key_id) == (other.digest, &other.key_id)
    }
}

impl Eq for ClientKey {}

// Omits the private key.
lockgate_text::debug_fields!(ClientKey: key_id);
