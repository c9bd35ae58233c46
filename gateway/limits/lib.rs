//! Rate limits shared by several gateways through Redis or Valkey. Requests are decided locally and
//! slightly ahead of the store: usage is reported afterwards, and the reply bounds the following
//! requests. Depends on policy allowances only.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests start servers of their own"))]

mod connection;
mod counts;
mod shared;

use lockgate_egress::Target;
use lockgate_text::percent;
pub use shared::Shared;
use url::Url;

// The validated address and the hash key of the store. Reads no files and no environment.

/// Databases are numbered; servers have 16 by default.
const MAX_DATABASE: u32 = 65_535;
const DEFAULT_PORT: u16 = 6379;

/// The configuration of a Redis or Valkey server.
#[derive(Clone, PartialEq, Eq)]
pub struct Config {
    /// Uses TLS for `rediss` and `valkeys` URLs.
    pub(crate) target: Target,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
    pub(crate) database: u32,
    /// Prefix of every key, before a colon.
    pub(crate) prefix: String,
    /// Key for the hashes of allowance names; the same at all gateways.
    pub(crate) key: [u8; 32],
}

/// A fault in a URL, without any part of the URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    #[error("must be a URL of Redis or Valkey")]
    Form,
    #[error("may have only a database number as its path")]
    Database,
    #[error("has a user without a password")]
    Password,
    #[error("must not have a query or fragment")]
    Query,
}

impl Config {
    /// Parses `redis://USER:PASSWORD@HOST:PORT/DATABASE`; `rediss` uses TLS, `valkey` and `valkeys`
    /// are synonyms. All parts but the host are optional.
    ///
    /// # Errors
    /// The fault in the URL.
    pub fn new(url: &str, prefix: &str, secret: &str) -> Result<Self, UrlError> {
        let url = Url::parse(url).map_err(|_| UrlError::Form)?;
        let scheme = match url.scheme() {
            "redis" | "valkey" => "http",
            "rediss" | "valkeys" => "https",
            _ => return Err(UrlError::Form),
        };
        let host = url.host_str().filter(|host| !host.is_empty()).ok_or(UrlError::Form)?;
        let port = url.port().unwrap_or(DEFAULT_PORT);
        let address = Url::parse(&format!("{scheme}://{host}:{port}/"));
        let address = address.map_err(|_| UrlError::Form)?;
        let target = Target::new(&address).map_err(|_| UrlError::Form)?;
        if url.query().is_some() || url.fragment().is_some() {
            return Err(UrlError::Query);
        }
        let database = match url.path().trim_start_matches('/') {
            "" => 0,
            number => match number.parse() {
                Ok(number) if number <= MAX_DATABASE => number,
                _ => return Err(UrlError::Database),
            },
        };
        let user = decode(url.username())?;
        let password = decode(url.password().unwrap_or(""))?;
        if user.is_some() && password.is_none() {
            return Err(UrlError::Password);
        }
        Ok(Self {
            target,
            user,
            password,
            database,
            prefix: prefix.to_owned(),
            key: blake3::derive_key("lockgate 2026-11 keys of shared rates", secret.as_bytes()),
        })
    }
}

/// Decodes a part of a URL, `None` if empty.
fn decode(part: &str) -> Result<Option<String>, UrlError> {
    if part.is_empty() {
        return Ok(None);
    }
    let decoded = percent::decode_strictly(part).ok_or(UrlError::Form)?;
    String::from_utf8(decoded).map(Some).map_err(|_| UrlError::Form)
}

// Omits password and key.
lockgate_text::debug_fields!(Config: target, database, prefix);

#[cfg(test)]
mod tests;
