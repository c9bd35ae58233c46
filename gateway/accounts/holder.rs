//! The holder of an account: a caller by organisation, issuer and subject.

use std::sync::Arc;

/// The identity that a grant belongs to. Two holders are equal if all three parts are.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Holder {
    pub organisation: Arc<str>,
    pub issuer: Arc<str>,
    pub subject: Arc<str>,
}

impl Holder {
    #[must_use]
    pub fn new(organisation: &str, issuer: &str, subject: &str) -> Self {
        Self { organisation: organisation.into(), issuer: issuer.into(), subject: subject.into() }
    }
}
