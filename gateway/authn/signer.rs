//! Identity statements for servers: JWTs (RFC 7519) about the caller, signed with ES256 and valid
//! for a single server and a minute. The public keys are published as a key set (RFC 7517). Of the
//! caller's credential, only the values in [`Claims`] are forwarded.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use http::HeaderValue;
use jsonwebtoken::jwk::{Jwk, JwkSet, PublicKeyUse, ThumbprintHash};
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use rustls_pki_types::PrivatePkcs8KeyDer;
use rustls_pki_types::pem::PemObject;
use serde::Serialize;
use url::Url;

use crate::identity::Identity;
use lockgate_text::date::now;

/// The path of the key set, below the public URL.
pub const KEY_SET: &str = "/.well-known/jwks.json";
/// The subject of the gateway's own requests. Subjects of callers contain a `|`.
const GATEWAY: &str = "gateway";
/// Validity of a statement, in seconds.
const STATEMENT_LIFETIME: u64 = 60;
/// Time for which a statement is reused, in seconds. A slow server still has the remaining
/// validity.
const REUSE_PERIOD: u64 = STATEMENT_LIFETIME / 2;
/// Maximum number of cached statements.
const MAX_CACHED_STATEMENTS: u64 = 10_000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The public URL of the gateway, without a trailing slash.
    pub public_url: Url,
    /// At least one key. The first signs, all are published.
    pub keys: Vec<SigningKey>,
}

/// The signer of statements, which is kept across configuration reloads.
#[derive(Default)]
pub struct Signer(ArcSwapOption<Desk>);

struct Desk {
    config: Config,
    issuer: String,
    header: Header,
    key_set: String,
    kept: moka::sync::Cache<Statement, Signed>,
}

/// The content of a statement. It is the whole cache key, so that no caller receives a statement
/// about another.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Statement {
    audience: Arc<str>,
    /// `None` for the gateway itself.
    about: Option<About>,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct About {
    issuer: Arc<str>,
    subject: Arc<str>,
    organisation: Option<Arc<str>>,
    agent: Option<Arc<str>>,
    key_name: Option<Arc<str>>,
}

#[derive(Clone)]
struct Signed {
    value: HeaderValue,
    /// Unix seconds.
    at: u64,
}

/// The claims of a statement. There is no `jti`, because a statement is sent with several requests,
/// and no roles or scopes, because authorization precedes the request to the server.
#[derive(Serialize)]
struct Claims<'a> {
    iss: &'a str,
    sub: &'a str,
    aud: &'a str,
    iat: u64,
    exp: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    org: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    client_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key_name: Option<&'a str>,
}

impl Signer {
    pub fn new(config: Option<&Config>) -> Self {
        let signer = Self::default();
        signer.adopt(config);
        signer
    }

    /// Replaces the configuration. Drops cached statements if it has changed.
    pub fn adopt(&self, config: Option<&Config>) {
        let current = self.0.load();
        if current.as_ref().map(|desk| &desk.config) != config {
            self.0.store(config.map(|config| Arc::new(Desk::new(config))));
        }
    }

    /// Signs a statement about a caller, for a server with this audience.
    pub fn sign_caller(&self, caller: &Identity, audience: &Arc<str>) -> Option<HeaderValue> {
        let about = About {
            issuer: Arc::clone(&caller.issuer),
            subject: Arc::clone(&caller.subject),
            organisation: caller.organisation.clone(),
            agent: caller.agent.clone(),
            key_name: caller.key_name.clone(),
        };
        self.sign(Statement { audience: Arc::clone(audience), about: Some(about) }, now())
    }

    /// Signs a statement that the request is the gateway's own.
    pub fn sign_own(&self, audience: &Arc<str>) -> Option<HeaderValue> {
        self.sign(Statement { audience: Arc::clone(audience), about: None }, now())
    }

    /// Returns the public keys as JSON if `path` is [`KEY_SET`], with or without the path of the
    /// public URL.
    pub fn key_set(&self, path: &str) -> Option<String> {
        let desk = self.0.load_full()?;
        let before = path.strip_suffix(KEY_SET)?;
        let prefix = desk.config.public_url.path().trim_end_matches('/');
        let is_here = before.is_empty() || before == prefix;
        if is_here { Some(desk.key_set.clone()) } else { None }
    }

    fn sign(&self, statement: Statement, now: u64) -> Option<HeaderValue> {
        let desk = self.0.load_full()?;
        if let Some(kept) = desk.kept.get(&statement)
            && (kept.at..kept.at + REUSE_PERIOD).contains(&now)
        {
            return Some(kept.value);
        }
        let value = desk.sign(&statement, now)?;
        desk.kept.insert(statement, Signed { value: value.clone(), at: now });
        Some(value)
    }
}

impl Desk {
    fn new(config: &Config) -> Self {
        let mut header = Header::new(Algorithm::ES256);
        if let Some(first) = config.keys.first() {
            header.kid = Some(first.id().to_owned());
        }
        let keys: Vec<_> = config.keys.iter().map(|key| key.public.clone()).collect();
        let kept = moka::sync::Cache::builder()
            .max_capacity(MAX_CACHED_STATEMENTS)
            .time_to_live(std::time::Duration::from_secs(STATEMENT_LIFETIME))
            .build();
        Self {
            issuer: config.public_url.as_str().trim_end_matches('/').to_owned(),
            header,
            key_set: serde_json::to_string(&JwkSet { keys }).unwrap_or_default(),
            kept,
            config: config.clone(),
        }
    }

    /// Signs a statement. Returns `None` if the system's random number generator fails.
    fn sign(&self, statement: &Statement, now: u64) -> Option<HeaderValue> {
        let subject;
        let mut claims = Claims {
            iss: &self.issuer,
            sub: GATEWAY,
            aud: &statement.audience,
            iat: now,
            exp: now + STATEMENT_LIFETIME,
            org: None,
            client_id: None,
            key_name: None,
        };
        if let Some(about) = &statement.about {
            subject = about.name();
            claims.sub = &subject;
            claims.org = Some(about.organisation());
            claims.client_id = about.agent.as_deref();
            claims.key_name = about.key_name.as_deref();
        }
        let key = self.config.keys.first()?;
        let token = jsonwebtoken::encode(&self.header, &claims, &key.private).ok()?;
        let mut value = HeaderValue::from_str(&token).ok()?;
        value.set_sensitive(true);
        Some(value)
    }
}

impl About {
    /// Returns the caller as policies name it, `ISSUER|SUBJECT`: a subject alone is ambiguous. A
    /// `|` in the issuer is escaped, so that different callers have different names.
    fn name(&self) -> String {
        let issuer = self.issuer.replace('%', "%25").replace('|', "%7C");
        format!("{issuer}|{}", self.subject)
    }

    fn organisation(&self) -> &str {
        self.organisation.as_deref().unwrap_or(crate::DEFAULT_ORGANISATION)
    }
}

// Private keys for signing statements: P-256 only, because every library verifies ES256. A key is
// identified by its thumbprint (RFC 7638), which is the same on every gateway.

#[derive(Clone)]
pub struct SigningKey {
    private: EncodingKey,
    public: Jwk,
    id: String,
}

/// The reason that a text is not a signing key. The message does not quote the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SigningKeyError {
    #[error("is not a private key in PEM (PKCS #8)")]
    Form,
    #[error("is not a P-256 private key")]
    Kind,
}

impl SigningKey {
    /// Parses a PKCS #8 key in PEM, `-----BEGIN PRIVATE KEY-----`.
    pub fn from_pem(pem: &str) -> Result<Self, SigningKeyError> {
        let _ = jsonwebtoken::crypto::aws_lc::DEFAULT_PROVIDER.install_default();
        let der = PrivatePkcs8KeyDer::from_pem_slice(pem.as_bytes())
            .map_err(|_| SigningKeyError::Form)?;
        let private = EncodingKey::from_ec_der(der.secret_pkcs8_der());
        let mut public = Jwk::from_encoding_key(&private, Algorithm::ES256)
            .map_err(|_| SigningKeyError::Kind)?;
        let id = public.thumbprint(ThumbprintHash::SHA256).map_err(|_| SigningKeyError::Kind)?;
        public.common.key_id = Some(id.clone());
        public.common.public_key_use = Some(PublicKeyUse::Signature);
        Ok(Self { private, public, id })
    }

    pub fn id(&self) -> &str {
        &self.id
    }
}

impl PartialEq for SigningKey {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl Eq for SigningKey {}

// Omits the private key.
lockgate_text::debug_fields!(SigningKey: id);

#[cfg(test)]
mod tests;
