//! Who a caller is, once authenticated. Two principals are the same when issuer and subject are: everything that is
//! kept for a caller is kept by that. Nothing here is self-declared, and nothing here is a secret.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

use crate::certificate::Certificate;

/// The issuer of the user of this machine.
pub const LOCAL: &str = "local";
/// The issuer of API keys.
pub const KEY: &str = "key";
/// The issuer of callers without any credential, where they are let in.
pub const ANONYMOUS: &str = "anonymous";

/// An authenticated caller. Cheap to clone; equal by issuer and subject alone.
#[derive(Clone)]
pub struct Principal {
    identity: Arc<Identity>,
    certificate: Option<Arc<Certificate>>,
}

/// What a credential says of its holder. Lists are bounded where credentials are read.
#[derive(Debug)]
pub struct Identity {
    /// `local`, `key`, `anonymous`, the URL of a token's issuer, or `certificate:` and the name of an authority.
    pub issuer: Arc<str>,
    pub subject: Arc<str>,
    pub organisation: Option<Arc<str>>,
    pub roles: Box<[Arc<str>]>,
    /// Those granted, and those that they imply.
    pub scopes: Box<[Arc<str>]>,
    /// The software that acts for the subject, as the credential names it (`azp`, `client_id`).
    pub agent: Option<Arc<str>>,
    /// Stands for issuer and subject in limits and tables.
    key: u64,
}

impl Identity {
    /// An identity without organisation, roles, scopes and agent.
    #[must_use]
    pub fn new(issuer: &str, subject: &str) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&(issuer.len() as u64).to_le_bytes()).update(issuer.as_bytes()).update(subject.as_bytes());
        let key = hasher.finalize().as_bytes().first_chunk::<8>().map_or(0, |first| u64::from_le_bytes(*first));
        Self {
            issuer: issuer.into(),
            subject: subject.into(),
            organisation: None,
            roles: Box::default(),
            scopes: Box::default(),
            agent: None,
            key,
        }
    }

    /// A number for issuer and subject, the same in every process: for limits and tables.
    #[must_use]
    pub fn key(&self) -> u64 {
        self.key
    }

    /// Whether a scope was granted, by itself or by one that implies it. The user of this machine has every scope.
    #[must_use]
    pub fn has_scope(&self, scope: &str) -> bool {
        &*self.issuer == LOCAL || self.scopes.iter().any(|granted| **granted == *scope)
    }
}

impl Principal {
    #[must_use]
    pub fn new(identity: impl Into<Arc<Identity>>) -> Self {
        Self { identity: identity.into(), certificate: None }
    }

    /// The same caller on a connection with this client certificate.
    #[must_use]
    pub(crate) fn on(mut self, certificate: Option<&Arc<Certificate>>) -> Self {
        self.certificate = certificate.cloned();
        self
    }

    /// The same caller on the connection of another one.
    #[must_use]
    pub(crate) fn with_certificate_of(self, other: &Self) -> Self {
        self.on(other.certificate.as_ref())
    }

    /// The client certificate of the connection, whatever the credential is.
    #[must_use]
    pub fn certificate(&self) -> Option<&Certificate> {
        self.certificate.as_deref()
    }
}

impl Deref for Principal {
    type Target = Identity;

    fn deref(&self) -> &Identity {
        &self.identity
    }
}

impl PartialEq for Principal {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.identity, &other.identity)
            || self.key == other.key && self.issuer == other.issuer && self.subject == other.subject
    }
}

impl Eq for Principal {}

impl Hash for Principal {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.key);
    }
}

impl fmt::Debug for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Principal")
            .field("issuer", &self.issuer)
            .field("subject", &self.subject)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
