//! What a client knows of its lists, in a few bytes: enough to see that they are others now,
//! without keeping a view alive.

use lockgate_upstream::ListKind;

use super::entry::index;

/// One number for each list of a view; the same for the same list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ListMarks(pub(super) [u64; 4]);

impl ListMarks {
    /// The lists that differ.
    pub(crate) fn changes(self, after: Self) -> impl Iterator<Item = ListKind> {
        ListKind::ALL.into_iter().filter(move |kind| self.0[index(*kind)] != after.0[index(*kind)])
    }

    /// Of a caller who sees nothing.
    pub(crate) fn none() -> Self {
        Self([0; 4])
    }
}
