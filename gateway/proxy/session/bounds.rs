//! Reasons why a session cannot be opened.

use crate::quota::Exhausted;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TooMany {
    /// The total limit is reached, or no random bytes are available.
    All,
    /// The principal's limit is reached.
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
