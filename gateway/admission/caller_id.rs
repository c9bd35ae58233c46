//! Identities for fair queueing, and roles of callers. Turns rotate among organisations first and
//! then among the callers of an organisation, so that additional keys give an organisation no
//! larger share.

use std::hash::{DefaultHasher, Hash, Hasher};

/// A caller and its organisation, as numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallerId {
    pub(crate) organisation: u64,
    principal: u64,
}

impl CallerId {
    /// Returns the identity of a principal in an organisation.
    pub fn new(organisation: &str, principal: u64) -> Self {
        let mut hasher = DefaultHasher::new();
        organisation.hash(&mut hasher);
        Self { organisation: hasher.finish(), principal }
    }

    /// Returns the identity shared by all principals of an organisation.
    pub fn of_organisation(organisation: &str) -> Self {
        Self::new(organisation, 0)
    }

    /// Returns the identity of a caller without an organisation, which counts as an organisation.
    pub fn alone(principal: u64) -> Self {
        Self { organisation: principal, principal }
    }

    /// Returns the number of the principal.
    pub fn principal(self) -> u64 {
        self.principal
    }
}

/// The administrative role of a caller. Each role includes the permissions of the lower roles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    User,
    /// Administers its organisation.
    Admin,
    /// Administers the whole gateway.
    Operator,
}
