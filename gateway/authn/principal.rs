//! Authenticated callers. All state of a caller is keyed by issuer, subject and organisation, which
//! also define equality. Nothing here is self-declared.

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

#[cfg(test)]
mod tests;
