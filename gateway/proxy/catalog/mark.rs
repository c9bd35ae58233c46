//! Compact marks of the lists that a client was last notified of, to detect changes without keeping
//! the view alive.

use lockgate_upstream::ListKind;

use super::entry::index;

/// A hash for each list of a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ListMarks(pub(super) [u64; ListKind::COUNT]);

impl ListMarks {
    /// Returns the lists to notify clients of: those that differ, and those that servers announced.
    /// Changes of templates and skills count as changes of resources.
    pub(crate) fn changes(self, after: Self, announced: &[ListKind]) -> Vec<ListKind> {
        let mut lists = Vec::new();
        for kind in ListKind::ALL {
            let differs = self.0[index(kind)] != after.0[index(kind)];
            let told = kind.announced_as();
            if (differs || announced.contains(&kind)) && !lists.contains(&told) {
                lists.push(told);
            }
        }
        lists
    }

    /// Returns the marks of a caller without a view.
    pub(crate) fn none() -> Self {
        Self([0; ListKind::COUNT])
    }
}
