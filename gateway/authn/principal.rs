//! Who a caller is, once authenticated. Two principals are the same when issuer, subject and
//! organisation are: everything that is kept for a caller is kept by that. Nothing here is
//! self-declared, and nothing here is a secret.

use std::fmt;
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
    #[must_use]
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

    /// The same caller on a connection with this client certificate.
    #[must_use]
    pub(crate) fn on(mut self, certificate: Option<&Arc<Certificate>>) -> Self {
        self.certificate = certificate.cloned();
        self
    }

    /// The same caller, whether or not a proxy sends its requests.
    #[must_use]
    pub(crate) fn forwarded(mut self, is_forwarded: bool) -> Self {
        self.is_forwarded = is_forwarded;
        self
    }

    /// Whether a proxy sends its requests, so that anyone may be behind an address of this machine.
    pub(crate) fn is_forwarded(&self) -> bool {
        self.is_forwarded
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
