//! What a client knows of its lists, in a few bytes: enough to see that they are others now,
//! without keeping a view alive.

use lockgate_upstream::ListKind;

use super::entry::index;

/// One number for each list of a view; the same for the same list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ListMarks(pub(super) [u64; 4]);

impl ListMarks {
    /// The lists to tell of: those that differ, and those that servers announced. Templates are
    /// told of with resources.
    pub(crate) fn changes(self, after: Self, announced: &[ListKind]) -> Vec<ListKind> {
        let mut lists = Vec::new();
        for kind in ListKind::ALL {
            let differs = self.0[index(kind)] != after.0[index(kind)];
            let told = match kind {
                ListKind::Templates => ListKind::Resources,
                other => other,
            };
            if (differs || announced.contains(&kind)) && !lists.contains(&told) {
                lists.push(told);
            }
        }
        lists
    }

    /// Of a caller who sees nothing.
    pub(crate) fn none() -> Self {
        Self([0; 4])
    }
}
