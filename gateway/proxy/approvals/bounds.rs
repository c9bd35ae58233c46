//! How many calls may wait for people.

use crate::quota::Exhausted;

/// How many may wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) all: usize,
    pub(crate) of_principal: usize,
}

/// There is no room for one more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoRoom {
    All,
    /// Its organisation leaves half of all to others.
    OfOrganisation,
    OfPrincipal,
}

impl From<Exhausted> for NoRoom {
    fn from(exhausted: Exhausted) -> Self {
        match exhausted {
            Exhausted::Principal => Self::OfPrincipal,
            Exhausted::Organisation => Self::OfOrganisation,
        }
    }
}
