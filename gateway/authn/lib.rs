//! Credentials to principal: who is calling. It opens nothing and knows no tools.

mod certificate;
mod config;
mod principal;

use std::fmt;
use std::net::IpAddr;

use subtle::ConstantTimeEq;

pub use certificate::Certificate;
pub use config::Config;
pub use principal::{ANONYMOUS, Identity, KEY, LOCAL, Principal};

/// What a caller brought along. Made by the listener, from the connection and the `Authorization` header alone.
#[derive(Clone)]
pub struct Credentials {
    /// Where the caller is.
    pub peer: Peer,
    /// The token of `Authorization: Bearer …`, if there was one.
    pub bearer: Option<String>,
}

/// Where a caller is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// The process that started us, over stdin and stdout.
    Stdio,
    /// A TCP connection.
    Address(IpAddr),
}

/// Why a caller is nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unknown {
    #[error("a bearer key is required: send `Authorization: Bearer <key>`")]
    Missing,
    #[error("the bearer key is not valid")]
    Invalid,
}

/// Turns credentials into principals.
pub struct Authenticator {
    /// BLAKE3 of the key, so that comparing takes the same time for every guess.
    key: Option<[u8; 32]>,
    local: Principal,
    holder: Principal,
}

impl Authenticator {
    #[must_use]
    pub fn new(config: &Config) -> Self {
        let principal = |issuer: &str, subject: &str| Principal::new(Identity::new(issuer, subject));
        Self {
            key: config.key.as_ref().map(|key| *blake3::hash(key.as_bytes()).as_bytes()),
            local: principal(LOCAL, "user"),
            holder: principal(KEY, "default"),
        }
    }

    /// Who the caller is.
    ///
    /// With a key configured, everybody over TCP needs it. Without one, only this machine's user may call.
    ///
    /// # Errors
    /// [`Unknown`].
    pub fn authenticate(&self, credentials: &Credentials) -> Result<Principal, Unknown> {
        match (credentials.peer, &self.key, &credentials.bearer) {
            (Peer::Stdio, _, _) => Ok(self.local.clone()),
            (Peer::Address(_), Some(key), Some(bearer)) => {
                let sent = blake3::hash(bearer.as_bytes());
                if bool::from(sent.as_bytes().ct_eq(key)) { Ok(self.holder.clone()) } else { Err(Unknown::Invalid) }
            }
            (Peer::Address(_), Some(_), None) => Err(Unknown::Missing),
            (Peer::Address(address), None, _) if address.to_canonical().is_loopback() => Ok(self.local.clone()),
            (Peer::Address(_), None, _) => Err(Unknown::Missing),
        }
    }
}

/// Never shows the bearer token.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("peer", &self.peer)
            .field("bearer", &self.bearer.as_ref().map(|_| "…"))
            .finish()
    }
}

#[cfg(test)]
mod tests;
