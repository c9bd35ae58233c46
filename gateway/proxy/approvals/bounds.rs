//! Limits on calls that await approval.

use crate::quota::Exhausted;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) all: usize,
    pub(crate) of_principal: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoRoom {
    All,
    /// An organisation may hold at most half of the limit on all.
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
