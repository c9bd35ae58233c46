//! Authenticated callers, and refusals of callers. All state of a caller is keyed by issuer,
//! subject and organisation, which also define equality. Nothing here is self-declared. The
//! responses to refusals are made elsewhere, and so are the permissions of a role, whose holders
//! are named here.

use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

use crate::KEY;
use crate::certificate::Certificate;
use crate::identity::Identity;

/// An authenticated caller. Cheap to clone; equal by issuer, subject and organisation alone.
#[derive(Clone)]
pub struct Principal {
    identity: Arc<Identity>,
    certificate: Option<Arc<Certificate>>,
    is_forwarded: bool,
}

impl Principal {
    pub fn new(identity: impl Into<Arc<Identity>>) -> Self {
        Self { identity: identity.into(), certificate: None, is_forwarded: false }
    }

    /// Returns the same caller as a member of another organisation, with its roles and scopes. Only
    /// operators act in other organisations.
    #[must_use]
    pub fn acting_in(&self, organisation: &str) -> Self {
        let identity = Arc::new(self.identity.acting_in(organisation));
        Self { identity, ..self.clone() }
    }

    #[must_use]
    pub(crate) fn on(mut self, certificate: Option<&Arc<Certificate>>) -> Self {
        self.certificate = certificate.cloned();
        self
    }

    #[must_use]
    pub(crate) fn forwarded(mut self, is_forwarded: bool) -> Self {
        self.is_forwarded = is_forwarded;
        self
    }

    /// Returns whether a proxy sends the caller's requests. If so, an address of this machine does
    /// not identify its user.
    pub(crate) fn is_forwarded(&self) -> bool {
        self.is_forwarded
    }

    #[must_use]
    pub(crate) fn with_certificate_of(self, other: &Self) -> Self {
        self.on(other.certificate.as_ref())
    }

    /// Returns the client certificate of the connection, for any kind of credential.
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
            || self.key() == other.key()
                && self.realm() == other.realm()
                && self.subject == other.subject
    }
}

impl Eq for Principal {}

impl Hash for Principal {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.key());
    }
}

lockgate_text::debug_fields!(Principal: issuer, subject);

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuthnError {
    #[error("credentials are required: send `Authorization: Bearer …`")]
    Missing,
    #[error("the bearer credential is not valid")]
    Invalid,
    #[error("the credential has expired")]
    Expired,
    #[error("the key was revoked")]
    Revoked,
    #[error("the token is not meant for this endpoint")]
    Audience,
    #[error("the credential lacks a scope that every request needs")]
    Scope,
    #[error("the token cannot be verified at the moment: its issuer's keys are not available")]
    Unavailable,
}

/// The fault of a rejected token, with unverified details from the token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedToken {
    /// A code listed in docs/troubleshooting.md.
    pub fault: &'static str,
    pub claim: Option<&'static str>,
    pub issuer: Option<Box<str>>,
    pub kid: Option<Box<str>>,
}

/// The refusal of a caller, and its principal if the credential itself was verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedCaller {
    pub why: AuthnError,
    /// For records only, never for a decision.
    pub who: Option<Principal>,
    /// For records only.
    pub token: Option<Box<RefusedToken>>,
}

impl RefusedCaller {
    pub(crate) fn known(why: AuthnError, who: &Principal) -> Self {
        Self { why, who: Some(who.clone()), token: None }
    }
}

impl From<AuthnError> for RefusedCaller {
    fn from(why: AuthnError) -> Self {
        Self { why, who: None, token: None }
    }
}

/// A set of callers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holder {
    /// Callers with a role, from any credential.
    Role(Pattern),
    /// API keys with a role.
    KeyRole(String),
    /// Callers with this `issuer|subject`.
    Principal(Pattern),
    /// Callers with this name in their client certificate, or with its fingerprint as `sha256:…`.
    Certificate(Pattern),
}

/// A name, or a prefix of names if it ends with `*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    text: String,
    is_prefix: bool,
}

impl Holder {
    /// Parses `role:NAME`, `principal:ISSUER|SUBJECT` or `certificate:NAME`.
    pub fn parse(text: &str) -> Option<Self> {
        let (kind, name) = text.split_once(':')?;
        let pattern = Pattern::new(name)?;
        match kind {
            "role" => Some(Self::Role(pattern)),
            "principal" if name.contains('|') => Some(Self::Principal(pattern)),
            "certificate" if name.contains(':') => Some(Self::Certificate(pattern)),
            _ => None,
        }
    }

    pub fn of_key(role: &str) -> Self {
        Self::KeyRole(role.to_owned())
    }

    pub fn names(&self, caller: &Principal) -> bool {
        match self {
            Self::Role(pattern) => caller.roles.iter().any(|role| pattern.fits(role)),
            Self::KeyRole(name) => {
                *caller.issuer == *KEY && caller.roles.iter().any(|role| **role == **name)
            }
            Self::Principal(pattern) => {
                pattern.fits(&format!("{}|{}", caller.issuer, caller.subject))
            }
            Self::Certificate(pattern) => pattern.fits_certificate(caller),
        }
    }
}

impl Pattern {
    /// Parses a pattern. Returns `None` for an empty text or `*` alone, and for `*` elsewhere.
    fn new(text: &str) -> Option<Self> {
        let start = text.strip_suffix('*');
        let name = start.unwrap_or(text);
        let is_plain = !name.is_empty() && !name.contains('*');
        if !is_plain {
            return None;
        }
        Some(Self { text: name.to_owned(), is_prefix: start.is_some() })
    }

    fn fits_certificate(&self, caller: &Principal) -> bool {
        let Some(certificate) = caller.certificate() else { return false };
        let fingerprint = format!("sha256:{}", certificate.fingerprint);
        self.fits(&fingerprint) || certificate.names.iter().any(|name| self.fits(name))
    }

    fn fits(&self, name: &str) -> bool {
        if self.is_prefix { name.starts_with(&self.text) } else { name == self.text }
    }
}

#[cfg(test)]
mod tests;
