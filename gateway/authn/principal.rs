//! Authenticated callers, and refusals of callers. All state of a caller is keyed by issuer,
//! subject and organisation, which also define equality. Nothing here is self-declared. The
//! responses to refusals are made elsewhere.

use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

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

#[cfg(test)]
mod tests;
