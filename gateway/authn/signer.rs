//! Says who callers are to servers that want to know: JWTs (RFC 7519) that are good for one server
//! and one minute, signed with ES256. Whoever verifies them reads our keys as a key set (RFC 7517).
//! Of a caller's own credential nothing goes on but what [`Claims`] names.

mod key;

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use http::HeaderValue;
use jsonwebtoken::jwk::JwkSet;
use jsonwebtoken::{Algorithm, Header};
use serde::Serialize;
use url::Url;

pub use key::{SigningKey, SigningKeyError};

use crate::clock::now;
use crate::identity::Identity;

/// Where the key set is, below the public address.
pub const KEY_SET: &str = "/.well-known/jwks.json";
/// The subject of what the gateway asks for itself. Those of callers have a `|`.
const GATEWAY: &str = "gateway";
/// How long a statement is good, in seconds.
const LIFE: u64 = 60;
/// How long it is used again: a server that is slow to look still has the rest of its life.
const REUSE: u64 = LIFE / 2;
/// Statements that are kept to be used again.
const KEPT: u64 = 10_000;

/// In whose name and with which keys statements are signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Where clients reach the gateway, without a slash at the end.
    pub public_url: Url,
    /// The first one signs, all are published; at least one.
    pub keys: Vec<SigningKey>,
}

/// Signs for all callers, through changes of the configuration.
#[derive(Default)]
pub struct Signer(ArcSwapOption<Desk>);

/// What a configuration makes of it.
struct Desk {
    config: Config,
    issuer: String,
    header: Header,
    key_set: String,
    kept: moka::sync::Cache<Statement, Signed>,
}

/// Everything that is said of a caller to one server. It is what statements are kept by, so that
/// nobody gets one about anybody else.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Statement {
    audience: Arc<str>,
    /// The gateway itself without one.
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

/// What a server learns. No `jti`, because one statement goes with several requests; no roles and
/// scopes, because what a caller may do is decided before a server is asked.
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
    #[must_use]
    pub fn new(config: Option<&Config>) -> Self {
        let signer = Self::default();
        signer.adopt(config);
        signer
    }

    /// Signs by another configuration from now on. What is kept of another one is forgotten.
    pub fn adopt(&self, config: Option<&Config>) {
        let current = self.0.load();
        if current.as_ref().map(|desk| &desk.config) != config {
            self.0.store(config.map(|config| Arc::new(Desk::new(config))));
        }
    }

    /// Who a caller is, for a server that takes what is said to this audience.
    #[must_use]
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

    /// That it is the gateway itself which asks.
    #[must_use]
    pub fn sign_own(&self, audience: &Arc<str>) -> Option<HeaderValue> {
        self.sign(Statement { audience: Arc::clone(audience), about: None }, now())
    }

    /// The public keys as JSON, at the path where they are: [`KEY_SET`], with what stands before it
    /// in the public address or without.
    #[must_use]
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
            && (kept.at..kept.at + REUSE).contains(&now)
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
        let mut keys = Vec::with_capacity(config.keys.len());
        for key in &config.keys {
            keys.push(key.public().clone());
        }
        let kept = moka::sync::Cache::builder()
            .max_capacity(KEPT)
            .time_to_live(std::time::Duration::from_secs(LIFE))
            .build();
        Self {
            issuer: config.public_url.as_str().trim_end_matches('/').to_owned(),
            header,
            key_set: serde_json::to_string(&JwkSet { keys }).unwrap_or_default(),
            kept,
            config: config.clone(),
        }
    }

    /// Nothing when the machine has no randomness.
    fn sign(&self, statement: &Statement, now: u64) -> Option<HeaderValue> {
        let subject;
        let mut claims = Claims {
            iss: &self.issuer,
            sub: GATEWAY,
            aud: &statement.audience,
            iat: now,
            exp: now + LIFE,
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
        let token = jsonwebtoken::encode(&self.header, &claims, key.private()).ok()?;
        let mut value = HeaderValue::from_str(&token).ok()?;
        value.set_sensitive(true);
        Some(value)
    }
}

impl About {
    /// The caller as policies name it, `ISSUER|SUBJECT`: a subject alone may be several callers. An
    /// issuer with a `|` of its own cannot be taken for another one.
    fn name(&self) -> String {
        let issuer = self.issuer.replace('%', "%25").replace('|', "%7C");
        format!("{issuer}|{}", self.subject)
    }

    fn organisation(&self) -> &str {
        self.organisation.as_deref().unwrap_or(crate::DEFAULT_ORGANISATION)
    }
}

#[cfg(test)]
mod tests;
