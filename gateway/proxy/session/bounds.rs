//! Why there is no further session.

use crate::quota::Exhausted;

/// Why there is no further session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TooMany {
    /// There are as many as there may be, or the machine has no randomness.
    All,
    /// The principal has as many as one may have.
    OfPrincipal,
}

impl From<Exhausted> for TooMany {
    fn from(exhausted: Exhausted) -> Self {
        match exhausted {
            Exhausted::Principal => Self::OfPrincipal,
            Exhausted::Organisation => Self::All,
        }
    }
}
