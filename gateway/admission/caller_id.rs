//! Who asks for a place. Turns go round organisations first and then round the callers of one, so
//! that an organisation has no more of them for having more keys.

use std::hash::{DefaultHasher, Hash, Hasher};

/// A caller and the organisation that it belongs to, as the numbers that stand for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallerId {
    pub(crate) organisation: u64,
    principal: u64,
}

impl CallerId {
    /// A principal of an organisation.
    #[must_use]
    pub fn new(organisation: &str, principal: u64) -> Self {
        let mut hasher = DefaultHasher::new();
        organisation.hash(&mut hasher);
        Self { organisation: hasher.finish(), principal }
    }

    /// An organisation where all of its principals are one caller.
    #[must_use]
    pub fn of_organisation(organisation: &str) -> Self {
        Self::new(organisation, 0)
    }

    /// Somebody who is of no organisation and takes turns with them.
    #[must_use]
    pub fn alone(principal: u64) -> Self {
        Self { organisation: principal, principal }
    }

    /// The number of the principal, as it was given.
    #[must_use]
    pub fn principal(self) -> u64 {
        self.principal
    }
}
